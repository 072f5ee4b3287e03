#!/usr/bin/env bash
# Plugins that do not match the program are rejected with a message of one line and exit code 6, and
# none of their code runs.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

command -v "${CC:-cc}" >/dev/null || { echo "no C compiler to make plugins with; its package is gcc"; exit 77; }
export SIMSEARCH_PLUGINS=$work
plan=(--model tiny --batch 8 --gpus 1 --layout "dtype=fp32" --steps 1)

# make_plugin NAME SOURCE: compiles a plugin
make_plugin() { "${CC:-cc}" -shared -fPIC -x c -o "$work/simsearch-$1.so" - <<<"$2" || fail "no $1"; }
refused() {
    says "^simsearch: $1: .*simsearch-$1.so was built from other sources than this program; .make. builds it again"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "expected one line on stderr"
}
ends='void *simsearch_backend(void) { __builtin_trap(); }'

for tables in "" "const unsigned long long simsearch_tables = 1;"; do
    make_plugin cuda "$tables $ends"
    run 6 run "${plan[@]}" --backend cuda
    refused cuda
    run 6 calibrate --backend cuda
    refused cuda
    run 0 list backends
    shows '^cuda .*was built from other sources'
    make_plugin mpi "$tables $ends"
    run 6 run "${plan[@]}" --comm mpi
    refused mpi
done
make_plugin mpi "const unsigned long long simsearch_tables = 1;"
run 6 run "${plan[@]}" --comm mpi
refused mpi
exit $failed
