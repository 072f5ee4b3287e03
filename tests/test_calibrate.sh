#!/usr/bin/env bash
# `simsearch calibrate` with what others' benchmarks printed, and its refusals. What it measures
# itself takes half a minute: tests/test_host_calibration.c has its parts, tests/bench_loop.c the
# whole.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/program.sh"
fixtures=$(dirname "$0")/fixtures

run 0 calibrate --nccl-tests "$fixtures/nccl_all_reduce.txt" --cluster dgx-h100 -o "$work/here.json"
shows 'all_reduce +of 8 '
grep -q '"fabric": "nvswitch' "$work/here.json" || fail "the curve has not the node's fabric"

# The file holds GPU and profile, and no data folder is asked for them; a second reading adds to it.
run 0 calibrate --osu "$fixtures/osu_allgather.txt" --ranks 8 --cluster "$work/here.json" --json
[ "$(grep -c '"collective"' "$work/out")" = 2 ] || fail "expected two collectives"
run 0 simulate --model gpt3-13b --gpus 8 --cluster "$work/here.json" --layout "tp8 mb1" --json
with=$(grep -m1 '"tensor_comm_s"' "$work/out")
run 0 simulate --model gpt3-13b --gpus 8 --cluster dgx-h100 --layout "tp8 mb1" --json
without=$(grep -m1 '"tensor_comm_s"' "$work/out")
[ "$with" != "$without" ] || fail "measured collectives change nothing"

# What a run measured goes into the profile of the plan that was run, and of no other.
run 0 --model tiny --gpus 1 --precision fp32 --stack host -o "$work/plan.json" --quiet
run 0 run "$work/plan.json" --steps 2 --json
cp "$work/out" "$work/run.json"
run 0 calibrate --refine "$work/run.json" "$work/plan.json" -o "$work/better.json"
shows 'MFU measured .* predicted before .* after'
run 0 --model tiny --gpus 1 --precision fp32 --cluster "$work/better.json" --quiet
run 0 --model tiny --gpus 1 --precision fp32 --batch 4 -o "$work/other.json" --quiet
run 4 calibrate --refine "$work/run.json" "$work/other.json"
says 'run.json:[0-9]+: (layout|predicted.step_s)'
run 2 calibrate --refine "$work/run.json"
says 'expected the plan file'

run 2 calibrate --nccl-tests --cluster dgx-h100
says 'expected files'
run 2 calibrate --nccl-tests "$fixtures/nccl_all_reduce.txt"
says '^simsearch: --cluster: is missing'
run 2 calibrate --nccl-tests --osu "$fixtures/osu_allgather.txt" --cluster dgx-h100
says 'expected one of'
run 2 calibrate "$fixtures/osu_allgather.txt"
says 'before files'
run 4 calibrate --osu "$fixtures/nccl_all_reduce.txt" --cluster dgx-h100 -o "$work/none.json"
says 'nccl_all_reduce.txt:'
[ ! -e "$work/none.json" ] || fail "wrote a file from what it could not read"
run 2 calibrate --for no-such-model --ranks 1
says 'no-such-model'

exit $failed
