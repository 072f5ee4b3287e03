# Sourced by benchmarks that compare predicted with measured runs on two nodes, which are network
# namespaces (tests/minicluster.sh). SIMSEARCH is the program to run. Exits if such nodes cannot be
# made. Files are written to $work.
# shellcheck shell=bash
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$here/../minicluster.sh" true || exit

# write_model BATCH LAYERS SEQ: writes a model of width 128 to $work/model.json
write_model() {
    cat >"$work/model.json" <<EOF
{ "format": 1, "name": "h128", "summary": "", "source": "made up", "norm": "layernorm",
  "activation": "gelu", "positions": "learned", "linear_bias": true, "tied": false, "dropout": 0,
  "batch": $1, "layers": $2, "hidden": 128, "heads": 4, "vocab": 256, "seq": $3 }
EOF
}

# on_nodes RATE COMMAND ARG...: runs a command on two nodes that a link of this rate connects
on_nodes() { bash "$here/../minicluster.sh" -r "$1" "$SIMSEARCH" "${@:2}"; }

# calibrate RATE: writes RATE.json
calibrate() {
    on_nodes "$1" calibrate --quick --quiet --for "$work/model.json" -o "$work/$1.json" || exit 1
}

# run_plan RATE LAYOUT ARG...: runs a plan and writes its JSON to the file out
run_plan() {
    on_nodes "$1" run --model "$work/model.json" --gpus 2 --cluster "$work/$1.json" --layout "$2" \
        --json "${@:3}" >"$work/out" || exit 1
}

# number KEY OCCURRENCE: prints the number with this key from the JSON in the file out
number() { grep -Eo "\"$1\": [-0-9.e]+" "$work/out" | sed -n "$2s/.* //p"; }

# Prints the step times of the run in the file out, separated by tabs: predicted, measured, percentiles.
figures() {
    printf '%s\t%s\t%s\t%s' "$(number step_s 2)" "$(number step_s 1)" "$(number step_s_p10 1)" \
        "$(number step_s_p90 1)"
}

# show_errors WHAT FILE...: shows the errors of lines with a name, predicted and measured time
show_errors() {
    local what=$1
    awk -F '\t' '{ e = log($2 / $3); print e < 0 ? -e : e }' "${@:2}" | sort -g |
        awk -v what="$what" '{ at[NR] = $1 }
            END { printf "step time: median |error| %.1f %%, worst %.1f %% of %d %s\n",
                  100 * at[int((NR + 1) / 2)], 100 * at[NR], NR, what }'
    printf 'load average during the runs: %s\n' "$(cut -d ' ' -f 1-3 /proc/loadavg)"
}
