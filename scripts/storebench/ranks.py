"""storebench in Python: ranks.py store|torch ROUNDS, with gorun's store by examples/store/store.py,
or with PyTorch's TCPStore, which is C++, and which rank 0 serves."""
import os, sys, time

WARM_UP = 5


class Gorun:
    def __init__(self):
        import store
        self.store = store.Store()

    def barrier(self, name):
        self.store.barrier()

    def put(self, key, value):
        self.store.put(key, value)

    def get(self, key, rank):
        return self.store.get(key, rank)


class Torch:
    def __init__(self):
        from torch.distributed import TCPStore
        self.store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)

    # As PyTorch's own: count, and the last to come lets all go.
    def barrier(self, name):
        if self.store.add(name, 1) == size:
            self.store.set(name + "/all", b"1")
        self.store.wait([name + "/all"])

    def put(self, key, value):
        self.store.set(key, value)

    def get(self, key, rank):
        return self.store.get(key)


def exchange(store, i):
    store.put(f"{i}/{rank}", b"%064d" % rank)
    for other in range(size):
        assert len(store.get(f"{i}/{other}", other)) == 64


rank, size, rounds = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[2])
store = {"store": Gorun, "torch": Torch}[sys.argv[1]]()
for i in range(rounds + WARM_UP):
    if i == WARM_UP:
        start = time.monotonic()
    store.barrier(f"b{i}")
met = time.monotonic()
for i in range(rounds):
    exchange(store, i)
end = time.monotonic()
if rank == 0:
    print(int((met - start) / rounds * 1e6), int((end - met) / rounds * 1e6))
store.barrier("end")
if rank == 0 and sys.argv[1] == "torch":
    time.sleep(1)  # the others still read their answers of it
