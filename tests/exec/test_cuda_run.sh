#!/usr/bin/env bash
# Runs plans with this machine as the GPU: the plugin is built with replacements of the toolkit's
# headers and libraries (tests/cuda_on_host). Kernels run thread by thread, streams are threads, and
# NCCL's ranks share memory. Losses must equal those of the host's backend.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

export SIMSEARCH_PLUGINS=$SIMSEARCH_PLUGINS/on_host SIMSEARCH_GEMM_TABLE=
if [ ! -e "$SIMSEARCH_PLUGINS/simsearch-cuda.so" ]; then
    echo "the plugin is built only for the release variant, with a C++ compiler (package g++)"
    exit 77
fi

# --- losses -------------------------------------------------------------------------------------

model() { # model NAME HEADS WIDTH: writes a model; a head of 64 is wide enough for tensor cores
    cat >"$work/$1.json" <<EOF
{ "format": 1, "name": "$1", "layers": 2, "hidden": $3, "heads": $2, "vocab": 64, "seq": 8,
  "norm": "layernorm", "activation": "gelu", "positions": "learned", "linear_bias": true,
  "tied": true, "dropout": 0.1, "batch": 4 }
EOF
}
model one-head 1 64
model two-heads 2 32

# expect MODEL TOKENS ERROR: computes the losses on the host. ERROR is the relative error that is
# allowed because the GPU adds in another order.
expect() {
    small=(--model "$work/$1.json" --batch 4 --steps 2 --json) tokens=$2 error=$3
    run 0 run "${small[@]}" --gpus 1 --layout "$tokens" --backend host
    wanted=$(losses)
}
# same GPUS LAYOUT [COMM]: checks that the losses equal the expected ones
same() {
    run 0 run "${small[@]}" --gpus "$1" --layout "$2 $tokens" --backend cuda \
        ${3:+--comm "$3"} --watchdog 60s
    paste <(tr ' ' '\n' <<<"$wanted") <(losses | tr ' ' '\n') | awk -v most="$error" '
        NF == 2 { n++; d = $1 - $2; if (d < 0) d = -d; if (d > most) bad = 1 }
        END { exit !(n == 2 && !bad) }' || fail "the losses are $(losses), but $wanted on the host"
}

# some N ITEM...: prints N random items; in `make campaign` all
some() { shuf -n "$([ "${CAMPAIGN:-}" ] && echo $# || echo "$1")" -e -- "${@:2}"; }

expect one-head "dtype=bf16" 5e-4
same 1 "mb2"
expect one-head "dtype=fp16" 1e-4
same 1 "mb2"
expect two-heads "attn=unfused dtype=fp32" 2e-5
same 1 "mb2"
expect two-heads "dtype=fp32" 2e-5
same 1 "mb2 recompute=full"
mapfile -t layouts < <(some 1 "dp2" "tp2 sp" "pp2 mb2" "pp2 mb4" "pp2 mb1 schedule=naive" \
    "dp2 zero2" "dp2 zero3")
for layout in "${layouts[@]}"; do same 2 "$layout" nccl; done
SIMSEARCH_REFUSED_WORDS=1 same 2 "tp2 sp" staged # as on a driver without cuStreamWriteValue32

# Compares with the same number of host ranks, because these exchanges have other losses than
# all-reduce.
same_exchange() { # same_exchange GPUS EXCHANGE COMM
    run 0 run "${small[@]}" --gpus "$1" --layout "dp$1 exchange=$2 $tokens" --backend host
    wanted=$(losses)
    same "$1" "dp$1 exchange=$2" "$3"
}
mapfile -t exchanges < <(some 1 "2 topk:0.1 nccl" "2 powersgd:2 nccl" "2 qsgd:4 staged" \
    "4 gossip:exp nccl" "4 gossip:ring staged")
for exchange in "${exchanges[@]}"; do
    read -r gpus method comm <<<"$exchange"
    same_exchange "$gpus" "$method" "$comm"
done

# --- graphs, which give the same bits as single launches ----------------------------------------

graphs=(run --model "$work/one-head.json" --batch 4 --steps 3 --json --gpus 1 --backend cuda)
mapfile -t layouts < <(some 1 "mb1 dtype=bf16" "mb2 recompute=full dtype=fp16")
for layout in "${layouts[@]}"; do
    run 0 "${graphs[@]}" --layout "$layout" --graphs off
    shows '"graphs": null'
    issued=$(sed -n '/"loss"/,/]/p' "$work/out")
    run 0 "${graphs[@]}" --layout "$layout"
    shows '"captured": 2'
    [ "$(sed -n '/"loss"/,/]/p' "$work/out")" = "$issued" ] || fail "the losses differ with graphs"
done

# The run uses graphs exactly if the stack says so.
predicted_s() { sed -n '/"step_s"/{s/[^0-9.e-]//g;p;q}' "$work/out"; }
mapfile -t layouts < <(some 1 "mb1" "mb1 dp2 zero1" "mb2 dp2 zero2")
for layout in "${layouts[@]}"; do
    asked=(--model "$work/one-head.json" --batch 4 --layout "$layout dtype=bf16" --json)
    [[ $layout = *dp2* ]] && asked+=(--gpus 2) || asked+=(--gpus 1)
    run 0 simulate "${asked[@]}" --stack cuda
    foreseen=$(predicted_s)
    run 0 run "${asked[@]}" --steps 2 --backend cuda
    sed -n '/"predicted"/,$p' "$work/out" >"$work/part" && mv "$work/part" "$work/out"
    [ "$(predicted_s)" = "${foreseen:?}" ] || fail "run predicts $(predicted_s) s, but simulate $foreseen s"
done

# --- a stopped rank -----------------------------------------------------------------------------

"$SIMSEARCH" run "${small[@]}" --gpus 2 --layout "dp2 $tokens" --backend cuda --comm nccl \
    --steps 100000 --checkpoint "$work/kept" --checkpoint-every 1 --watchdog 5s \
    >/dev/null 2>"$work/err" &
launcher=$!
for _ in $(seq 300); do
    compgen -G "$work/kept/step-*[0-9]" >/dev/null && break
    sleep 0.05
done
kill -STOP "$(rank_process $launcher 1)" || fail "rank 1 was not found"
wait $launcher
code=$?
[ $code = 75 ] || fail "expected exit 75 with rank 1 stopped, not $code"
says '^rank 0: no progress for [5-9]'
says '^rank 0 waits '
exit $failed
