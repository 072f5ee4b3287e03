#!/usr/bin/env bash
# The predictions in docs/performance.md were published before any measurement. The program must
# still predict these numbers. If a change of the cost model or of a calibration file moves them by
# more than 1 %, the page must get a new table with date and reason; the old numbers stay in its
# text.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

number() { sed -n "/\"$1\": [0-9]/{s/.*: *//;s/,//;p;q}" "$work/out"; }

# registered MODEL MICROBATCH BATCH GPU CLUSTER
registered() {
    local row
    row=$(grep "^| $1 | $4 |" docs/performance.md) || { fail "no row of $1 on $4"; return; }
    sed 's/"dropout": [0-9][0-9.]*/"dropout": 0/' "models/presets/$1.json" >"$work/$1.json"
    run 0 simulate --model "$work/$1.json" --gpus 1 --cluster "$5" --batch "$3" --layout "mb$2" \
        --stack cuda --json
    awk -F ' *[|] *' -v step="$(number step_s)" -v mfu="$(number mfu)" '
        function far(a, b) { return a < 0.99 * b || a > 1.01 * b }
        { exit far(1e3 * step, $4 + 0) || far(100 * mfu, $5 + 0) }' <<<"$row" ||
        fail "$1 on $4: now $(number step_s) s, MFU $(number mfu); registered: $row"
}
for gpu in "H100 dgx-h100" "H200 dgx-h200"; do
    # shellcheck disable=SC2086 # two words
    registered gpt2 8 32 $gpu
    # shellcheck disable=SC2086
    registered gpt3-1.3b 2 32 $gpu
    # shellcheck disable=SC2086
    registered gpt3-6.7b 1 16 $gpu
done
exit $failed
