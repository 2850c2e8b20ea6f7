# What rxe-vm runs: RDMA between the machine's two devices as it is, and with one fault
# after the other.
settle() { sleep 0.5; }
"$RAILS" -name healthy
"$RAILS" -name reverse -from rxe1 -to rxe0 -addr 10.77.0.1
"$RAILS" -name missing -to rxe9
"$RAILS" -name gid -gid 5
(ulimit -l 64; chmod 666 /dev/infiniband/uverbs*; "$RAILS" -name memlock -user 1000)
chmod 660 /dev/infiniband/uverbs1
"$RAILS" -name uverbs -user 1000
# The programs meet through the machine itself, and RDMA takes the wire.
ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:09 dev veth0 nud permanent
"$RAILS" -name lost
ip neigh del 10.77.0.2 dev veth0
ip link set veth1 down; settle
"$RAILS" -name down
for name in ib_write_bw ib_write_lat; do
  if pidof $name; then echo "$name is left"; exit 1; fi
done
