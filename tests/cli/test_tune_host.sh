#!/usr/bin/env bash
# not under asan: it measures this machine.
# `tune` proposes short runs of a model on this machine's cores, and the test makes these runs.
# Given their times, `tune` must be 95 % sure which plan is the best. This takes minutes and runs
# only in a campaign (CAMPAIGN=1).
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"
[ -n "${CAMPAIGN:-}" ] || exit 0
cd "$work" || exit 1
command -v python3 >/dev/null || { echo "python3, which fills in the measured times, is not installed"; exit 77; }

run 0 calibrate --quick --for tiny -o here.json
# Makes the proposed runs and writes their times into the file. Prints the share of their cores that
# the runs got.
cat >measure.py <<'PY'
import json, os, subprocess, sys
model, runs = sys.argv[1], json.load(open("runs.json"))
for run in runs["runs"]:
    if run["step_s"] is None:
        words = ["run", "--model", model, "--gpus", str(run["gpus"]), "--gbs", str(int(run["batch"])),
                 "--layout", run["layout"], "--cluster", "here.json", "--steps", "24", "--json"]
        out = json.loads(subprocess.run([os.environ["SIMSEARCH"], *words], check=True, capture_output=True).stdout)
        run["step_s"] = out["measured"]["step_s"]
        print("  %s on %d cores, batch %d: %.4f s, got %.0f %% of its cores" % (
            run["layout"], run["gpus"], run["batch"], run["step_s"], 100 * out["core_share"]))
json.dump(runs, open("done.json", "w"))
PY

# settle MODEL BATCH LAYOUT: tunes a command that trains this model on two cores. It makes the proposed
# runs until P(best) is 95 %, in at most three rounds.
settle() {
    local model=$1 batch=$2 layout=$3 round results=() chance=0
    rm -rf job done.json
    run 0 export --model "$model" --gpus 2 --cluster here.json --stack host --gbs "$batch" \
        --layout "$layout" --to megatron -o job
    for round in 0 1 2 3; do
        run 0 tune job/args.txt "${results[@]}" --gpus 2 --cluster here.json --stack host --propose -o runs.json --json
        chance=$(python3 -c 'import json, sys; print(int(100 * json.load(open(sys.argv[1]))["best"]["p_best"]))' "$work/out")
        echo "$model $layout: after $round rounds P(best) is $chance %"
        [ "$chance" -lt 95 ] || return 0
        python3 measure.py "$model" || { fail "the proposed runs fail"; return; }
        results=(done.json)
    done
    fail "$model $layout: P(best) is $chance % after three rounds"
}
settle tiny 16 "tp2 pp1 dp1 mb1 dtype=fp32"
settle tiny 16 "tp1 pp2 dp1 mb1 dtype=fp32"
settle tiny 32 "tp1 pp1 dp2 mb1 dtype=fp32 recompute=full"
exit $failed
