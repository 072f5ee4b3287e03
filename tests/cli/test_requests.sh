#!/usr/bin/env bash
# Compares answers to typical requests with those in tests/cli/requests.txt. That file states how to
# rewrite it.
# shellcheck source=tests/program.sh
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/program.sh"
answers=$here/cli/requests.txt
fresh=$work/fresh

# Prints a short form of an answer: the GPUs used, then layout, step time and memory of the best
# plan.
compact() {
    awk -F'": ' '
        /^  "gpus": / { gpus = $2 + 0 }
        /^  "best": [{]/ { inside = 1 }
        inside && !layout && /^    "layout": / { layout = $2; gsub(/"|,$/, "", layout) }
        inside && !step && /^    "step_s": / { step = $2 + 0 }
        inside && !bytes && /^    "peak_memory_bytes": / { bytes = $2 + 0 }
        inside && !risk && /^    "p_oom": / { risk = $2 + 0 }
        /^  [}]/ { inside = 0 }
        END { if (layout) printf "%d GPUs: %s: %.3g s, %.1f GiB%s\n", gpus, layout, step, bytes / 2^30,
                  (risk > 0.05) ? ", LIKELY OUT OF MEMORY" : "" }' "$work/out"
}

# answer ARGUMENTS: prints the plan in short form, or the error if there is none.
answer() {
    # shellcheck disable=SC2086 # words
    "$SIMSEARCH" $1 --json --top 1 --jobs 1 >"$work/out" 2>"$work/err"
    if [ -s "$work/err" ]; then head -n 1 "$work/err"; else compact; fi
}

number=0
while IFS= read -r line; do
    case $line in
        '#'* | '') echo "$line" ;;
        *)
            number=$((number + 1))
            if [ "${VARIANT-}" = asan ] && [ $((number % 10)) != 1 ]; then
                echo "$line" # where programs run ten times slower, only a sample is tested
            else
                echo "${line%% = *} = $(answer "${line%% = *}")"
            fi
            ;;
    esac
done <"$answers" >"$fresh"

if [ "${SIMSEARCH_GOLDEN-}" = write ]; then
    cp "$fresh" "$answers"
elif ! diff "$answers" "$fresh" >"$work/err"; then
    fail "answers have changed"
fi
grep -n 'LIKELY OUT OF MEMORY' "$fresh" && fail "a plan is likely to run out of memory"
[ "$(grep -c ' = ' "$fresh")" -ge 60 ] || fail "expected sixty requests"
exit $failed
