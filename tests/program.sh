# Functions for shell tests of the program: a temporary folder, and checks of a run. Tests source this
# file and exit with $failed.
# shellcheck shell=bash disable=SC2034
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
last=() # the last command
: >"$work/err"

fail() {
    echo "${last[*]:+${last[*]}: }$*"
    sed 's/^/    /' "$work/err" | head -n 12
    failed=1
}

# run CODE ARGS...: runs the program and checks its exit code
run() {
    local expected=$1 code
    shift
    last=("$@")
    "$SIMSEARCH" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$expected" ] || fail "expected exit $expected, not $code"
}

says() { grep -Eq -- "$1" "$work/err" || fail "stderr does not say /$1/"; }
shows() { grep -Eq -- "$1" "$work/out" || fail "stdout does not show /$1/"; }
losses() { sed -n '/"loss"/,/]/p' "$work/out" | grep -Eo '[0-9]+\.[0-9]{5}' | tr '\n' ' '; }
# rank_process LAUNCHER RANK: the process of a rank that a run started
rank_process() {
    local process
    grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3 |
        while read -r process; do
            grep -qzE "^(SIMSEARCH|OMPI_COMM_WORLD)_RANK=$2\$" "/proc/$process/environ" && echo "$process"
        done
}
has_mpi() { command -v mpirun >/dev/null && [ -e "$(dirname "$SIMSEARCH")/simsearch-mpi.so" ]; }
