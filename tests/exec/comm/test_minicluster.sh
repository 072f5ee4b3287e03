#!/usr/bin/env bash
# not under asan: the test creates networks.
# Ranks on two nodes with a slow link between them must have the losses of one rank. When the link is
# cut, the ranks must report the instruction in which they wait. Skipped if network namespaces are not
# permitted.
# shellcheck source-path=SCRIPTDIR/../..
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/program.sh"

# on_nodes CODE [OPTION...] -- LAYOUT ARG...: runs a plan on two nodes and checks the exit code
on_nodes() {
    local expected=$1 options=() code
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    last=("$@")
    timeout 60 bash "$here/minicluster.sh" -r 400mbit "${options[@]}" "$SIMSEARCH" run --model tiny \
        --batch 8 --gpus 2 --cluster rtx-2080ti-4 --layout "$2 dtype=fp32" "${@:3}" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$expected" ] || fail "expected exit $expected, not $code"
}

bash "$here/minicluster.sh" true 2>"$work/err"
code=$?
if [ $code = 77 ]; then
    cat "$work/err"
    exit 77
fi
[ $code = 0 ] || fail "minicluster.sh true: exit $code"

# --- equal losses -------------------------------------------------------------------------------

"$SIMSEARCH" run --model tiny --batch 8 --gpus 1 --cluster rtx-2080ti-4 --layout "dtype=fp32" \
    --steps 3 --json >"$work/out" 2>"$work/err" || fail "one rank failed"
alone=$(losses)
[ "$(wc -w <<<"$alone")" = 3 ] || fail "expected three losses, not $alone"
for layout in dp2 pp2 "tp2 sp"; do
    on_nodes 0 -- "$layout" --steps 3 --json
    [ "$(losses)" = "$alone" ] || fail "$layout: the losses are $(losses), but $alone on one rank"
done
if has_mpi; then
    on_nodes 0 -m -- pp2 --steps 3 --json
    [ "$(losses)" = "$alone" ] || fail "pp2 over MPI: the losses are $(losses), but $alone on one rank"
fi

# --- a cut link ---------------------------------------------------------------------------------

endless=(--steps 1000000 --watchdog 4s --checkpoint-every 2)
waits='waits (REDUCE_GRAD c0|NORM_GRAD|for the sum of losses|for the measurements of other ranks|for a checkpoint to be saved)$'

# left_words FOLDER: checks that both ranks wrote the instruction in which they wait.
left_words() {
    for rank in 0 1; do
        grep -Eq "^rank $rank $waits" "$1/rank-$rank.status" || fail "rank-$rank.status does not say where rank $rank waits"
    done
}

# goes_on FOLDER [OPTION]: after the link is restored, the run resumes with the same bits as an
# uninterrupted run.
bits() { sed -n '/"loss"/,/]/p' "$work/out" | grep -Eo '[0-9]+\.[0-9]+'; }
goes_on() {
    local saved step rest
    saved=$(find "$1" -name 'step-*[0-9]' | sort | tail -n 1)
    step=$((10#${saved##*-}))
    [ $step -gt 0 ] || fail "no checkpoint was left"
    on_nodes 0 "${@:2}" -- dp2 --steps 3 --checkpoint "$1" --resume --json
    rest=$(bits)
    on_nodes 0 "${@:2}" -- dp2 --steps $((step + 3)) --json
    [ "$(bits | tail -n 3)" = "$rest" ] ||
        fail "the losses after step $step are $rest, not $(bits | tail -n 3)"
}

# Cuts the link after some steps; each step sends 860 kB, the size of the weights.
on_nodes 75 -c 4000000 -- dp2 "${endless[@]}" --checkpoint "$work/cut"
says '^rank 0: no progress for 4'
for rank in 0 1; do says "^(\[rank $rank\] )?rank $rank $waits"; done
left_words "$work/cut"
goes_on "$work/cut"

# After the cut Open MPI's mpirun waits forever for its daemon on the other node. So the nodes are
# shut down once both ranks have written their position. The limit on bytes is higher here because
# MPI also sends bytes when it starts.
cut_over_mpi() {
    last=("cut over MPI")
    bash "$here/minicluster.sh" -r 400mbit -m -c 6000000 "$SIMSEARCH" run --model tiny --batch 8 \
        --gpus 2 --cluster rtx-2080ti-4 --layout "dp2 dtype=fp32" "${endless[@]}" \
        --checkpoint "$work/cut-mpi" >"$work/out" 2>"$work/err" &
    local nodes=$!
    for _ in $(seq 300); do
        [ -s "$work/cut-mpi/rank-0.status" ] && [ -s "$work/cut-mpi/rank-1.status" ] && break
        kill -0 $nodes 2>/dev/null || break
        sleep 0.1
    done
    kill $nodes
    wait $nodes
    left_words "$work/cut-mpi"
    goes_on "$work/cut-mpi" -m
}
if has_mpi; then cut_over_mpi; else echo "a cut link is not tested over MPI: MPI is not installed"; fi

on_nodes 75 -c 1000000 -- pp2 --steps 1000000 --watchdog 4s
says '^rank 0 waits (RECV_GRAD c1 mb[0-7] from 1|REDUCE_TIED|NORM_GRAD|for)'
says '^\[rank 1\] rank 1 waits (RECV_ACT c0 mb[0-7] from 0|REDUCE_TIED|NORM_GRAD|for)'
exit $failed
