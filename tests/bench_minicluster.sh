#!/usr/bin/env bash
# The closed loop across a slow link: calibrates two nodes (tests/minicluster.sh) at two rates, holds
# DP2, PP2, TP2 and what search chooses against what was predicted of them, and the choice against
# the fastest that was measured. Reads SIMSEARCH, the program that was built.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bash "$here/minicluster.sh" true || exit

# Few weights and long sequences: two replicas are the best while their gradients pass quickly, two
# stages where the link is slow.
cat >"$work/model.json" <<'EOF'
{ "format": 1, "name": "h128", "summary": "", "source": "made up", "norm": "layernorm",
  "activation": "gelu", "positions": "learned", "linear_bias": true, "tied": false, "dropout": 0,
  "batch": 2, "layers": 6, "hidden": 128, "heads": 4, "vocab": 256, "seq": 2048 }
EOF

# on_nodes RATE COMMAND ARG...
on_nodes() {
    local rate=$1
    shift
    bash "$here/minicluster.sh" -r "$rate" "$SIMSEARCH" "$@"
}

# number KEY OCCURRENCE of the JSON in out
number() { grep -Eo "\"$1\": [-0-9.e]+" "$work/out" | sed -n "$2s/.* //p"; }

# The line of a plan, and its predicted and measured time in $work/RATE
bench_plan() {
    local rate=$1 layout=$2
    on_nodes "$rate" run --model "$work/model.json" --gpus 2 --cluster "$work/$rate.json" \
        --layout "$layout" --steps 11 --json >"$work/out" || exit 1
    printf '%s\t%s\t%s\t%s\t%s\n' "$layout" "$(number step_s 2)" "$(number step_s 1)" \
        "$(number step_s_p10 1)" "$(number step_s_p90 1)" | tee -a "$work/$rate" |
        awk -F '\t' '{ printf "  %-34s %9.1f %9.1f %+6.1f %%   %.1f to %.1f\n", $1, 1e3 * $2,
                       1e3 * $3, 100 * log($2 / $3), 1e3 * $4, 1e3 * $5 }'
}

bench_rate() {
    local rate=$1 choice
    on_nodes "$rate" calibrate --quick --quiet --for "$work/model.json" -o "$work/$rate.json" || exit 1
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
awk -F '\t' '{ e = log($2 / $3); print e < 0 ? -e : e }' "$work/400mbit" "$work/100mbit" | sort -g |
    awk '{ at[NR] = $1 } END { printf "step time: median |error| %.1f %%, worst %.1f %% of %d runs\n",
           100 * at[int((NR + 1) / 2)], 100 * at[NR], NR }'
printf 'load of the machine meanwhile: %s\n' "$(cut -d ' ' -f 1-3 /proc/loadavg)"
