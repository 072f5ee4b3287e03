#!/usr/bin/env bash
# Two nodes on this machine: network namespaces with a link of a given rate between them. Each node
# runs one rank of the same command, with torchrun's environment variables. Only for commands that use
# no GPU.
#
#   minicluster.sh [-r RATE] [-c BYTES] [-m] COMMAND ARG...
#     -r RATE   rate of each direction, in tc's form (400mbit); default: unlimited
#     -c BYTES  cuts the link when rank 0 has sent this many bytes
#     -m        starts the ranks by mpirun
#
# Standard output is rank 0's; rank 1's lines on standard error begin with "[rank 1] ". Exits with
# rank 0's code, or rank 1's when that is 0; with 77 and the reason if it may not create a network.
set -u
rate=none cut='' by_mpirun=no
while getopts r:c:m option; do
    case $option in
    r) rate=$OPTARG ;;
    c) cut=$OPTARG ;;
    m) by_mpirun=yes ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || {
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

not_here() {
    echo "minicluster: not run: $1" >&2
    exit 77
}
[ "$(uname -s)" = Linux ] || not_here "network namespaces are Linux's"
for tool in ip:iproute2 tc:iproute2 unshare:util-linux; do
    command -v ${tool%:*} >/dev/null || not_here "${tool%:*} is not installed; its package is ${tool#*:}"
done
[ "$(id -u)" = 0 ] || not_here "only root may make network namespaces"

# --- the network --------------------------------------------------------------------------------

# The network does not conflict with others: names contain the process id, and addresses are in
# namespaces.
nodes=("simsearch$$-0" "simsearch$$-1")
addresses=(10.213.77.1 10.213.77.2)
work=$(mktemp -d)
ranks=()

# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    for name in "${nodes[@]}"; do
        for pid in $(ip netns pids "$name" 2>/dev/null); do kill -KILL "$pid"; done
        ip netns del "$name" 2>/dev/null
        rm -rf "/etc/netns/$name"
    done
    rmdir /etc/netns 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The link's queue holds a full TCP window, so no packets are lost, and bursts are short compared
# with a message. So the link behaves like a network of this rate.
open_node() {
    local node=$1 name=${nodes[$1]}
    ip -n "$name" link set lo up &&
        ip -n "$name" addr add "${addresses[node]}/24" dev eth0 &&
        ip netns exec "$name" sh -c 'cd /proc/sys/net/ipv4 && echo reno >tcp_congestion_control
            echo "4096 65536 1048576" >tcp_wmem && echo "4096 65536 1048576" >tcp_rmem' &&
        ip -n "$name" link set eth0 gso_max_size 16384 up &&
        { [ "$rate" = none ] ||
            ip netns exec "$name" tc qdisc add dev eth0 root tbf rate "$rate" burst 32kb latency 200ms; }
}

open_network() {
    ip netns add "${nodes[0]}" && ip netns add "${nodes[1]}" &&
        ip link add eth0 netns "${nodes[0]}" type veth peer name eth0 netns "${nodes[1]}" &&
        open_node 0 && open_node 1
}
open_network 2>"$work/err" || not_here "network namespaces are not permitted: $(tail -n 1 "$work/err")"

bytes_sent() { ip netns exec "${nodes[0]}" cat /sys/class/net/eth0/statistics/tx_bytes; }

# --- the ranks ----------------------------------------------------------------------------------

# Each rank is pinned to a core, if there are two.
other_core=0
[ "$(nproc)" = 1 ] || other_core=1

start_direct() {
    local node
    for node in 1 0; do
        (
            export RANK=$node WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
            export MASTER_ADDR=${addresses[0]} MASTER_PORT=29500
            if [ "$node" = 0 ]; then exec ip netns exec "${nodes[0]}" taskset -c 0 "$@"; fi
            exec ip netns exec "${nodes[1]}" taskset -c "$other_core" "$@" \
                2> >(sed -u 's/^/[rank 1] /' >&2) >/dev/null
        ) &
        ranks[node]=$!
    done
}

# Open MPI starts its daemon on the other node by a program that takes the arguments of ssh.
write_agent() {
    cat >"$work/agent" <<EOF
#!/bin/bash
while [ "\${1#-}" != "\$1" ]; do shift; done
exec ip netns exec "${nodes[1]}" unshare --uts /bin/bash -c "hostname \$1; \${*:2}"
EOF
    chmod +x "$work/agent"
}

write_hosts() {
    for name in "${nodes[@]}"; do
        mkdir -p "/etc/netns/$name"
        printf '%s\n' "127.0.0.1 localhost" "${addresses[0]} node0" "${addresses[1]} node1" \
            >"/etc/netns/$name/hosts"
    done
}

start_mpirun() {
    local exported=()
    [ -z "${SIMSEARCH_DATA+set}" ] || exported+=(-x SIMSEARCH_DATA)
    [ -z "${SIMSEARCH_PLUGINS+set}" ] || exported+=(-x SIMSEARCH_PLUGINS)
    # shellcheck disable=SC2016
    ip netns exec "${nodes[0]}" unshare --uts /bin/bash -c 'hostname node0; exec "$@"' node0 \
        env TMPDIR="$work" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun -n 2 --host node0:1,node1:1 --map-by node --bind-to none \
        --mca plm rsh --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include eth0 \
        --mca btl_tcp_if_include eth0 --mca btl self,tcp --mca pml ob1 \
        --mca mpi_yield_when_idle 1 "${exported[@]}" "$@" &
    ranks[0]=$!
}

if [ $by_mpirun = yes ]; then
    write_agent
    write_hosts
    start_mpirun "$@"
else
    start_direct "$@"
fi
if [ -n "$cut" ]; then
    while kill -0 "${ranks[0]}" 2>/dev/null && [ "$(bytes_sent)" -lt "$cut" ]; do sleep 0.02; done
    ip -n "${nodes[0]}" link set eth0 down
fi
code=0
for pid in "${ranks[@]}"; do
    wait "$pid" || { status=$?; [ $code != 0 ] || code=$status; }
done
exit $code
