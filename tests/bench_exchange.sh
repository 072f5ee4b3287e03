#!/usr/bin/env bash
# Exchanges of two data ranks across a link of 100 Mbit/s (tests/minicluster.sh): the time of a step
# that was predicted of each beside the measured one, bytes likewise, and the loss on the shipped
# text. Reads SIMSEARCH, the program that was built.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rate=100mbit steps=31

bash "$here/minicluster.sh" true || exit

# Half a million parameters: seconds of a step are those of the link.
cat >"$work/model.json" <<'EOF2'
{ "format": 1, "name": "h128", "summary": "", "source": "made up", "norm": "layernorm",
  "activation": "gelu", "positions": "learned", "linear_bias": true, "tied": false, "dropout": 0,
  "batch": 8, "layers": 2, "hidden": 128, "heads": 4, "vocab": 256, "seq": 128 }
EOF2

on_nodes() { bash "$here/minicluster.sh" -r "$rate" "$SIMSEARCH" "$@"; }

# number KEY OCCURRENCE of the JSON in out
number() { grep -Eo "\"$1\": [-0-9.e]+" "$work/out" | sed -n "$2s/.* //p"; }

# The last loss of the JSON in out
last_loss() { sed -n '/"loss"/,/]/p' "$work/out" | grep -Eo '[0-9]+\.[0-9]+' | tail -n 1; }

# A line of $work/rows: exchange, predicted, measured, its percentiles, bytes of both, loss
bench_exchange() {
    on_nodes run --model "$work/model.json" --gpus 2 --cluster "$work/nodes.json" --data workshop \
        --layout "tp1 pp1 dp2 mb4 dtype=fp32 exchange=$1" --steps "$steps" --rate 0.003 --json \
        >"$work/out" || exit 1
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(number step_s 2)" "$(number step_s 1)" \
        "$(number step_s_p10 1)" "$(number step_s_p90 1)" "$(number predicted_step_bytes 1)" \
        "$(number measured_step_bytes 1)" "$(last_loss)" | tee -a "$work/rows" |
        awk -F '\t' '{ printf "  %-26s %9.1f %9.1f %+6.1f %%   %6.1f to %6.1f   %10.0f %10.0f   %.3f\n",
                       $1, 1e3 * $2, 1e3 * $3, 100 * log($2 / $3), 1e3 * $4, 1e3 * $5, $6, $7, $8 }'
}

on_nodes calibrate --quick --quiet --for "$work/model.json" -o "$work/nodes.json" || exit 1
printf '%s, %s steps\n  %-26s %9s %9s %8s   %16s   %10s %10s   %s\n' "$rate" "$steps" exchange \
    predicted measured error "P10 to P90, ms" "predicted" "sent, bytes" loss
for exchange in allreduce ring tree ps:1 ps:2 gossip:one-peer gossip:one-peer:combine=beside \
    local:4 pga:4 qsgd:4 qsgd:8 topk:0.01 topk:0.1 ef21:0.05 neolithic:0.05 powersgd:2 powersgd:8; do
    bench_exchange "$exchange"
done

# Pairs that are predicted to be more than a tenth apart.
awk -F '\t' '{ name[NR] = $1; predicted[NR] = $2; measured[NR] = $3 }
    END {
        for (i = 1; i <= NR; i++)
            for (j = 1; j <= NR; j++)
                if (predicted[i] * 1.1 < predicted[j]) {
                    pairs++
                    if (measured[i] >= measured[j]) {
                        wrong++
                        printf "  %s was not faster than %s\n", name[i], name[j]
                    }
                }
        printf "order: %d of %d pairs as predicted\n", pairs - wrong, pairs
    }' "$work/rows"
awk -F '\t' '{ e = log($2 / $3); print e < 0 ? -e : e }' "$work/rows" | sort -g |
    awk '{ at[NR] = $1 } END { printf "step time: median |error| %.1f %%, worst %.1f %% of %d exchanges\n",
           100 * at[int((NR + 1) / 2)], 100 * at[NR], NR }'
awk -F '\t' '$6 != "" && $6 != $7 { print "  " $1 " sent " $7 " bytes a step and not " $6; wrong++ }
    END { printf "bytes: %d exchanges sent what was predicted of them\n", NR - wrong }' "$work/rows"
printf 'load of the machine meanwhile: %s\n' "$(cut -d ' ' -f 1-3 /proc/loadavg)"
