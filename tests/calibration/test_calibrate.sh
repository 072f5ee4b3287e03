#!/usr/bin/env bash
# Tests `simsearch calibrate` with the output of other benchmarks, and its error messages. A calibration
# of this machine takes half a minute, so tests/calibration/test_host_calibration.c tests its parts, and
# tests/bench/bench_loop.c tests all of it.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"
fixtures=$(dirname "$0")/../fixtures

run 0 calibrate --nccl-tests "$fixtures/nccl_all_reduce.txt" --cluster dgx-h100 -o "$work/here.json"
shows 'all_reduce +of 8 '
grep -q '"fabric": "nvswitch' "$work/here.json" || fail "the curve does not have the node's fabric"

# The cluster file that calibrate writes contains GPU and profile, so no data folder is needed. The
# output of a second benchmark is added to the file.
run 0 calibrate --osu "$fixtures/osu_allgather.txt" --ranks 8 --cluster "$work/here.json" --json
[ "$(grep -c '"collective"' "$work/out")" = 2 ] || fail "expected two collectives"
run 0 simulate --model gpt3-13b --gpus 8 --cluster "$work/here.json" --layout "tp8 mb1" --json
with=$(grep -m1 '"tensor_comm_s"' "$work/out")
run 0 simulate --model gpt3-13b --gpus 8 --cluster dgx-h100 --layout "tp8 mb1" --json
without=$(grep -m1 '"tensor_comm_s"' "$work/out")
[ "$with" != "$without" ] || fail "measured collectives change nothing"

# A profile is disturbed if other programs ran during its measurement. Every answer that uses it says so,
# and has no interval narrower than the profile's error.
sed -E 's/"measured": true,/&"disturbed": {"core_share": 0.12, "held_out_error": 0.5},/;
    s/"error_log": 0\.[0-9]+/"error_log": 0.5/' "$work/here.json" >"$work/busy-here.json"
run 0 simulate --model gpt3-13b --gpus 8 --cluster "$work/busy-here.json" --layout "tp8 mb1"
shows '\(profile disturbed\)'
shows 'profile disturbed, typical error 20.5 %'
run 0 simulate --model gpt3-13b --gpus 8 --cluster "$work/busy-here.json" --layout "tp8 mb1" --json
shows 'a rank got only 12 % of its core. Predictions of held-out steps were up to 50 % off'

# `calibrate --refine RUN PLAN` accepts only a run of that plan.
run 0 --model tiny --gpus 1 --precision fp32 --stack host -o "$work/plan.json" --quiet
# A run with other programs on its cores is rejected, so this test writes a high core share into the
# run's file.
run 0 run "$work/plan.json" --cluster dgx-h100 --steps 2 --json
shows '"inside_interval": (true|false)'
sed -E 's/"core_share": [^,]*/"core_share": 0.15/' "$work/out" >"$work/busy.json"
sed -E 's/"core_share": [^,]*/"core_share": 0.99/' "$work/out" >"$work/run.json"
run 4 calibrate --refine "$work/busy.json" "$work/plan.json"
says 'busy.json:[0-9]+: core_share: expected .* 80 % of a core or more; found 15 %'
sed -E 's/"step_s": [0-9][^,]*/"step_s": null/' "$work/run.json" >"$work/alone.json"
run 4 calibrate --refine "$work/alone.json" "$work/plan.json"
says 'alone.json:[0-9]+: predicted.step_s: expected a prediction; found null'
run 0 calibrate --refine "$work/run.json" "$work/plan.json" -o "$work/better.json"
shows 'MFU measured .* with the old profile, .* with the refined one'
run 0 --model tiny --gpus 1 --precision fp32 --cluster "$work/better.json" --quiet
run 0 --model tiny --gpus 1 --precision fp32 --batch 4 -o "$work/other.json" --quiet
run 4 calibrate --refine "$work/run.json" "$work/other.json"
says 'run.json:[0-9]+: (layout|predicted.step_s)'

# The prediction uses the launch mode of the run, not that of the stack (the software's file).
run 0 --model tiny --gpus 1 --precision fp32 --stack cuda -o "$work/cuda.json" --quiet
for graphs in off on; do
    run 0 run "$work/cuda.json" --cluster dgx-h100 --steps 4 --graphs $graphs --json
    sed -E 's/"core_share": [^,]*/"core_share": 0.99/' "$work/out" >"$work/graphs-$graphs.json"
    run 0 calibrate --refine "$work/graphs-$graphs.json" "$work/cuda.json" --quiet
done
run 2 calibrate --refine "$work/run.json"
says 'expected a run and its plan file'

# The losses are made up: 2.5 + 3 (1 + S / 0.06)^-3 + 80 rate / n, plus 4000 rate^2 7^2 for local:8.
# S is the sum of the learning rates so far, and n the number of ranks.
told() { # told FILE RANKS RATE EXCHANGE APART STEPS: writes a made-up run
    awk -v ranks="$2" -v rate="$3" -v exchange="$4" -v apart="$5" -v steps="$6" 'BEGIN {
        printf "{\"layout\": \"dp%d exchange=%s\", \"training\": {\"rate\": %g, \"data_ranks\": %d, ", \
            ranks, exchange, rate, ranks
        printf "\"samples_per_rank\": 4, \"tensors\": [[64, 64, 10]]}, \"loss\": ["
        for (step = 0; step < steps; step++)
            printf "%s%.6f", step ? ", " : "", 2.5 + 3 * (1 + step * rate / 0.06) ^ -3 + \
                80 * rate / ranks + 4000 * rate ^ 2 * apart + 0.004 * sin(step * step)
        print "]}" }' >"$work/$1"
}
told a.json 1 0.001 allreduce 0 400
told b.json 8 0.001 allreduce 0 400
told c.json 8 0.001 local:8 8 400
run 0 calibrate --convergence "$work/a.json" "$work/b.json" -o "$work/scales.json"
shows 'noise +(80|79\.[0-9]+|80\.[0-9]+) '
shows 'mixing_scale +0\.2416 +the shipped value'
run 0 calibrate --convergence "$work/a.json" "$work/b.json" "$work/c.json" -o "$work/scales.json"
shows 'mixing +(4000|39[0-9]{2}|40[0-9]{2}) '
grep -q '"source": "fitted on 1200 steps of 3 runs' "$work/scales.json" || fail "scales.json names no source"
exchange=(--model gpt3-1.3b --gpus 64 --cluster p3-v100-16g)
run 0 simulate "${exchange[@]}" --layout "tp8 mb16 exchange=gossip:ring" --convergence "$work/scales.json"
shows 'constants from the runs of --convergence'
run 0 simulate "${exchange[@]}" --layout "tp8 mb16 exchange=gossip:ring" --convergence "$work/scales.json" --json
with=$(grep '"transient_steps"' "$work/out")
run 0 "${exchange[@]}" --fix tp8 --objective time-to-accuracy
shows 'exact +tp8 .* exchange=allreduce$'
shows '^ +- +[0-9.]+ (thousand|million) years +- .* exchange=ef21:0.01$'
shows 'published +as many steps .*Ying et al. 2021'
if grep -q 'e+[0-9]' "$work/out"; then fail "the output has a number with an exponent"; fi
run 0 simulate "${exchange[@]}" --layout "tp8 mb16 exchange=gossip:ring" --json
[ "$with" != "$(grep '"transient_steps"' "$work/out")" ] || fail "fitted constants change nothing"
run 4 calibrate --convergence "$work/a.json"
says '^simsearch: noise: cannot be separated'
run 4 calibrate --convergence "$work/run.json"
says 'run.json: expected the losses of 30 steps or more; found 2'
run 4 calibrate --convergence "$work/scales.json"
says 'scales.json(:[0-9]+)?: layout'
run 4 simulate "${exchange[@]}" --layout "tp8 mb16" --convergence "$work/a.json"
says 'a.json:[0-9]+: layout'

run 2 calibrate --nccl-tests --cluster dgx-h100
says 'expected files'
run 2 calibrate --nccl-tests "$fixtures/nccl_all_reduce.txt"
says '^simsearch: --cluster: is missing'
run 2 calibrate --nccl-tests --osu "$fixtures/osu_allgather.txt" --cluster dgx-h100
says 'cannot be combined with --nccl-tests'
run 2 calibrate "$fixtures/osu_allgather.txt"
says 'files need --nccl-tests or --osu'
run 4 calibrate --osu "$fixtures/nccl_all_reduce.txt" --cluster dgx-h100 -o "$work/none.json"
says 'nccl_all_reduce.txt:'
[ ! -e "$work/none.json" ] || fail "wrote a file although the input cannot be read"
run 2 calibrate --for no-such-model --ranks 1
says 'no-such-model'

exit $failed
