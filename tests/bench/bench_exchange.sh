#!/usr/bin/env bash
# Trains with each gradient exchange on two data ranks across a link of 100 Mbit/s
# (tests/bench/nodes.sh). Prints predicted and measured step times and bytes, and the loss on the
# shipped text. The variable EXCHANGES limits the run to the listed exchanges.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/nodes.sh"
rate=100mbit steps=31
exchanges="allreduce ring tree ps:1 ps:2 gossip:one-peer gossip:one-peer:combine=beside local:4 pga:4
    qsgd:4 qsgd:8 topk:0.01 topk:0.1 ef21:0.05 neolithic:0.05 powersgd:2 powersgd:8"

# Half a million parameters, so that the link dominates the step time.
write_model 8 2 128

# Prints the last loss of the JSON in out.
last_loss() { sed -n '/"loss"/,/]/p' "$work/out" | grep -Eo '[0-9]+\.[0-9]+' | tail -n 1; }

# Adds a line to $work/rows: exchange, predicted and measured time, percentiles, predicted and
# measured bytes, loss.
bench_exchange() {
    run_plan "$rate" "tp1 pp1 dp2 mb4 dtype=fp32 exchange=$1" --data workshop --steps "$steps" --rate 0.003
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$(figures)" "$(number predicted_step_bytes 1)" \
        "$(number measured_step_bytes 1)" "$(last_loss)" | tee -a "$work/rows" |
        awk -F '\t' '{ printf "  %-26s %9.1f %9.1f %+6.1f %%   %6.1f to %6.1f   %10.0f %10.0f   %.3f\n",
                       $1, 1e3 * $2, 1e3 * $3, 100 * log($2 / $3), 1e3 * $4, 1e3 * $5, $6, $7, $8 }'
}

calibrate "$rate"
printf '%s, %s steps\n  %-26s %9s %9s %8s   %16s   %10s %10s   %s\n' "$rate" "$steps" exchange \
    predicted measured error "P10 to P90, ms" "predicted" "sent, bytes" loss
for exchange in ${EXCHANGES:-$exchanges}; do
    bench_exchange "$exchange"
done

# Prints how many pairs of exchanges were measured in the predicted order. Only pairs whose predicted
# times differ by more than a tenth are counted.
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
awk -F '\t' '!($6 > 0 && $6 == $7) { print "  " $1 " sent " $7 " bytes per step instead of " $6; wrong++ }
    END { printf "bytes: %d exchanges sent as many bytes as predicted\n", NR - wrong }' "$work/rows"
show_errors exchanges "$work/rows"
