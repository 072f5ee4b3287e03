#!/usr/bin/env bash
# Runs plans as a user does. Ranks are processes, and the output has predicted and measured times.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

tiny=(--model tiny --seq 16 --batch 8 --steps 3)

# --- one rank -----------------------------------------------------------------------------------

run 0 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --json
alone=$(losses)
[ "$(wc -w <<<"$alone")" = 3 ] || fail "expected three losses, not $alone"
for key in layout backend ranks loss measured step_s step_s_p10 step_s_p90 peak_memory_bytes mfu \
    predicted error inside_interval core_share by_kind gemm count measured_s predicted_s profile; do
    shows "\"$key\": "
done

# --- the cluster of the prediction: this machine's cores, or --cluster --------------------------

shows '"error": null'
shows '"profile": null'
run 0 run "${tiny[@]}" --gpus 1 --layout "dtype=bf16" --cluster "$(dirname "$0")/../fixtures/cluster/host_core.json"
shows '^predicted for host \(profile host-core-measured\)'
shows 'step time +[0-9.]+ +[0-9.]+ ms'
for layout in "pp2 dtype=fp32" "tp2 sp dtype=fp32" "dp2 zero3 dtype=fp32 recompute=full"; do
    run 0 run "${tiny[@]}" --gpus 2 --layout "$layout" --json
    [ "$(losses)" = "$alone" ] || fail "the losses are $(losses), but $alone on one rank"
done

# --- graphs -------------------------------------------------------------------------------------

run 0 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --json
shows '"graphs": null'
run 0 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --graphs on --json
shows '"captured": 2'
[ "$(losses)" = "$alone" ] || fail "the losses are $(losses), but $alone without graphs"
run 0 run "${tiny[@]}" --gpus 2 --layout "tp2 sp dtype=fp32" --graphs=on --json
says "^simsearch: --graphs: passes are issued op by op, because tensor ranks"
shows '"graphs": null'
run 2 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --graphs perhaps
says 'auto'

# --- plan files, slices, text, traces -----------------------------------------------------------

run 0 --model tiny --seq 16 --gpus 2 --precision fp32 --fix pp2 -o "$work/plan.json" --quiet
run 0 run "$work/plan.json" --steps 3 --trace "$work/trace.json"
shows 'predicted +measured'
shows 'by kind'
shows 'by instruction'
shows '^no predicted times: .* dgx-h100 has GPUs'
shows 'step time +- +[0-9.]+ ms'
grep -q 'measured stage 1' "$work/trace.json" || fail "the trace has no measured stage 1"
grep -q 'predicted stage 1' "$work/trace.json" || fail "the trace has no predicted stage 1"
grep -q '"ts":-' "$work/trace.json" && fail "an instruction of the trace starts before the first one"
run 0 run --model tiny --gpus 16 --layout "tp2 pp4 dp2 dtype=fp32" --slice --ranks 2 --steps 1 --json
shows '"layout": "tp2 pp1 dp1 mb1 dtype=fp32"'
run 0 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --data workshop --steps 20 --rate 0.01 --json
first=$(losses | awk '{ print $1 }') last_loss=$(losses | awk '{ print $NF }')
awk -v a="$first" -v b="$last_loss" 'BEGIN { exit !(b < a - 1) }' ||
    fail "expected the loss to fall by 1 on a text, from $first to $last_loss"

run 0 --model tiny --seq 16 --gpus 2 --precision fp32 --batch 8 --run --steps 3 --json
[ "$(losses)" = "$alone" ] || fail "search --run: the losses are $(losses), but $alone on one rank"
run 0 --model tiny --seq 16 --gpus 2 --precision fp32 --batch 8 --run --steps 3
shows 'BEST PLAN'
shows 'predicted +measured'

# --- training that fails ------------------------------------------------------------------------

run 7 run "${tiny[@]}" --gpus 2 --layout "pp2 dtype=fp16" --rate 30 --json
says '^simsearch: step 2: training diverged on rank 1: the loss of its tokens is not finite'
sed -n '/"loss": /,/]/p' "$work/out" | tr -d ' \n' | grep -Eqx '"loss":\[[0-9.]+,null\],' ||
    fail "expected one loss and null"
run 7 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32 optimizer=sgd exchange=local:2" --rate 1000000 --clip 0
says 'training diverged on rank'
shows ' nan .*skipped'
# Step 14 is the first whose loss, after at least ten earlier losses, is above their mean. Losses of
# the steps before a checkpoint count too.
calm=(--model tiny --seq 16 --batch 8 --layout "dp2 dtype=fp32" --gpus 2 --rate 0.001 --spike 0.01)
spiked='step 14: training stopped: the loss 5\.579[0-9]* is 1\.7 standard deviations above the mean of earlier losses, 5\.55'
run 7 run "${calm[@]}" --steps 20
says "^simsearch: $spiked"
run 0 run "${calm[@]}" --steps 12 --checkpoint "$work/calm"
run 7 run "${calm[@]}" --steps 8 --checkpoint "$work/calm" --resume
says "^simsearch: $spiked"
run 0 run "${calm[@]}" --steps 20 --spike 3
run 2 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --lr-warmup 5 --lr-decay 5
says '^simsearch: --lr-decay: expected more steps than --lr-warmup, 5; found 5'
run 2 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --min-lr 1 --lr-decay 5
says '^simsearch: --min-lr: expected at most the learning rate'

# --- exchanges other than all-reduce ------------------------------------------------------------

run 0 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32 exchange=ring" --json
[ "$(losses)" = "$alone" ] || fail "exchange=ring: the losses are $(losses), but $alone on one rank"
shows '"changes": null'
sends_what_is_predicted() {
    [ "$(grep -Eo '(predicted|measured)_step_bytes": [1-9][0-9.]+' "$work/out" | cut -d ' ' -f 2 | sort |
        uniq -c | awk '{ print $1 }')" = 2 ] || fail "$1: the sent bytes differ from the predicted ones"
}
sends_what_is_predicted exchange=ring
run 0 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32" --json
sends_what_is_predicted "all-reduce"
run 0 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32 exchange=gossip:one-peer" --checkpoint "$work/copies"
shows '^exchange=gossip computes other updates than all-reduce: ranks average'
shows 'sent in a step'
run 0 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --checkpoint "$work/copies" --resume
says '^simsearch: continued from the mean of 2 copies of the weights, which differed'
run 0 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32 exchange=topk:0.1" --checkpoint "$work/kept"
run 4 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32" --checkpoint "$work/kept" --resume
# Every rank rejects the checkpoint; the first one to do so ends the others.
says "^(\[rank [0-9]+\] )?simsearch: exchange: the checkpoint holds error-feedback buffers of each rank for exchange=topk"
run 6 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp16 exchange=topk:0.1"
says "^simsearch: exchange: compressed, robust and late gradients can't be run in fp16"

# --- hostile ranks ------------------------------------------------------------------------------

run 0 run "${tiny[@]}" --gpus 4 --layout "dp4 dtype=fp32 exchange=median:1" --hostile 1:silence
shows '^1 of 4 data ranks are hostile \(silence\): [0-3]; exchange=median tolerates 1$'
run 0 run "${tiny[@]}" --gpus 4 --layout "dp4 dtype=fp32 exchange=trimmed:1" --hostile 2:noise --json
shows '"sends": "noise"'
shows '"tolerated": 1'
sends_what_is_predicted "hostile ranks"
run 2 run "${tiny[@]}" --gpus 4 --layout "dp4 dtype=fp32" --hostile 4:flip
says '^simsearch: --hostile: expected fewer than the 4 data ranks'

# --- plans that cannot be run -------------------------------------------------------------------

run 6 run --model tiny --gpus 2 --layout "cp2 dtype=fp32"
says '^simsearch: cp: context parallelism'
run 2 run
says 'plan file'
run 2 run --model tiny --gpus 2 --layout "dp2 dtype=fp32" --ranks 3
says '2 ranks, not 3'
run 2 run --model tiny --gpus 8 --layout "tp4 dtype=fp32" --slice --ranks 2
says 'multiple of the 4 tensor ranks'
run 4 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32" --data "$work/none"
says 'cannot be opened'
run 2 run "${tiny[@]}" --gpus 2 --layout "dp2 dtype=fp32" --data workshp
says 'did you mean "workshop"'
head -c 10 "$0" >"$work/text"
run 4 run "${tiny[@]}" --gpus 1 --layout "dtype=fp32" --data "$work/text"
says 'takes 17 bytes, but the file has 10'

# --- over MPI, if it is installed ---------------------------------------------------------------

if has_mpi; then
    last=("mpirun -n 2 simsearch run")
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
        mpirun --oversubscribe -n 2 "$SIMSEARCH" run "${tiny[@]}" --gpus 2 \
        --layout "pp2 dtype=fp32" --json >"$work/out" 2>"$work/err" || fail "mpirun failed"
    [ "$(losses)" = "$alone" ] || fail "over MPI: the losses are $(losses), but $alone on one rank"
fi
exit $failed
