#!/usr/bin/env python3
"""Ranks tell each other their addresses by gorun's store: gorun -np 4 python3 store.py"""
import json, os, socket


class Store:
    """A connection to the store that gorun keeps for this job; docs/store.md has the protocol."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["GORUN_STORE"][len("unix:"):])
        self.stream, self.id = self.socket.makefile("rwb"), 0
        self.secret = self.ask("hello", rank=int(os.environ["GORUN_RANK"]))

    def ask(self, op, value=b"", **fields):
        self.id += 1
        line = json.dumps({"op": op, "len": len(value), "id": self.id, **fields})
        self.stream.write(line.encode() + b"\n" + value)
        self.stream.flush()
        line = self.stream.readline()
        if not line:
            raise EOFError("the store is gone: the job has ended")
        reply = json.loads(line)
        if "code" in reply:
            raise RuntimeError(reply["err"])
        return self.stream.read(reply["len"])

    def put(self, key, value):
        self.ask("put", value, key=key)

    def get(self, key, writer, seconds=60):
        return self.ask("get", key=key, timeout_ms=int(seconds * 1000), **{"from": writer})

    def barrier(self, name="default", seconds=60):
        self.ask("barrier", key=name, timeout_ms=int(seconds * 1000))


if __name__ == "__main__":
    rank, size = int(os.environ["GORUN_RANK"]), int(os.environ["GORUN_SIZE"])
    store = Store()
    store.put(f"addr/{rank}", f"{os.environ['GORUN_HOST_ADDR']}:{4000 + rank}".encode())
    addresses = [store.get(f"addr/{other}", other).decode() for other in range(size)]
    store.barrier()
    print(f"rank {rank} knows {' '.join(addresses)}")
