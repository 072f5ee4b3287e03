#!/usr/bin/env bash
# Calibrates two nodes with a slow link (tests/bench/nodes.sh) at two rates. Compares measured with
# predicted step times of DP2, PP2, TP2 and the plan that search chooses. Also compares the chosen
# plan with the measured fastest one.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/nodes.sh"

# The model has few weights and long sequences, so two replicas are best on a fast link and two stages
# on a slow link.
write_model 2 6 2048

# Runs a plan, prints its row of the table, and appends its predicted and measured time to
# $work/RATE.
bench_plan() {
    run_plan "$1" "$2" --steps 11
    printf '%s\t%s\n' "$2" "$(figures)" | tee -a "$work/$1" |
        awk -F '\t' '{ printf "  %-34s %9.1f %9.1f %+6.1f %%   %.1f to %.1f\n", $1, 1e3 * $2,
                       1e3 * $3, 100 * log($2 / $3), 1e3 * $4, 1e3 * $5 }'
}

bench_rate() {
    local rate=$1 choice
    calibrate "$rate"
    "$SIMSEARCH" --gpus 2 --model "$work/model.json" --precision fp32 --cluster "$work/$rate.json" \
        --json >"$work/out" || exit 1
    choice=$(grep -m 1 -Eo '"layout": "[^"]+' "$work/out" | sed 's/.*: "//')
    printf '%s\n  %-34s %9s %9s %8s   %s\n' "$rate" plan "predicted" "measured" error "P10 to P90, ms"
    for layout in "tp1 pp1 dp2 mb1 dtype=fp32" "tp1 pp2 dp1 mb1 dtype=fp32" "tp2 pp1 dp1 mb1 dtype=fp32"; do
        bench_plan "$rate" "$layout"
    done
    cut -f 1 "$work/$rate" | grep -qxF "$choice" || bench_plan "$rate" "$choice"
    awk -F '\t' -v choice="$choice" '
        !least || $3 < least { least = $3; fastest = $1 }
        $1 == choice { chosen = $3 }
        END { printf "  search chose %s, %.1f %% above the fastest that was measured, %s\n", choice,
              100 * (chosen / least - 1), fastest }' "$work/$rate"
}

bench_rate 400mbit
bench_rate 100mbit
show_errors runs "$work/400mbit" "$work/100mbit"
