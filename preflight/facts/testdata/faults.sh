# What rxe-vm runs: facts of the machine as it is, and with one fault after the other.
facts() { "$COLLECT" -name "$@"; }
settle() { sleep 0.5; }
facts healthy
ip link set veth1 down; settle
facts down
ip link set veth1 up; settle
ip link set veth1 mtu 1500; settle
facts mtu
ip link set veth1 mtu 4200; settle
ip addr del 10.77.0.1/24 dev veth0; settle
facts address
ip addr add 10.77.0.1/24 dev veth0; settle
(ulimit -l 64; facts memlock)
chmod 660 /dev/infiniband/uverbs0; chmod 666 /dev/infiniband/uverbs1
facts uverbs -user 1000
flap() { while :; do ip link set veth1 down; settle; ip link set veth1 up; settle; done; }
flap &
flapping=$!
facts growth -full
kill $flapping
