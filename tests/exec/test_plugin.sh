#!/usr/bin/env bash
# Plugins that do not match the program are rejected with a message of one line and exit code 6, and
# none of their code runs. A plugin is looked for in $SIMSEARCH_PLUGINS, else beside the program, else
# in ../lib/simsearch.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

command -v "${CC:-cc}" >/dev/null || { echo "no C compiler to make plugins with; its package is gcc"; exit 77; }
digest=$(cat "$SIMSEARCH_PLUGINS/tables") || fail "no digest of this program's tables"
export SIMSEARCH_PLUGINS=$work SIMSEARCH_DATA=${SIMSEARCH_DATA:-$PWD} # a copied program finds no data folder
plan=(--model tiny --batch 8 --gpus 1 --layout "dtype=fp32" --steps 1)

# make_plugin NAME SOURCE: compiles a plugin
make_plugin() { "${CC:-cc}" -shared -fPIC -x c -o "$work/simsearch-$1.so" - <<<"$2" || fail "plugin $1 was not compiled"; }
refused() {
    says "^simsearch: $1: .*simsearch-$1.so was built from other sources than this program; run .make. to rebuild it"
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
ours="const unsigned long long simsearch_tables = $digest;"
for tables in "const unsigned long long simsearch_tables = 1;" "$ours"; do # no backend function
    make_plugin mpi "$tables"
    run 6 run "${plan[@]}" --comm mpi
    refused mpi
done

# This plugin matches the program, but has neither a device nor communicators.
empty="$ours static void *none[3]; void *simsearch_backend(void) { return none; }"
make_plugin cuda "$empty"
make_plugin mpi "$empty"
run 6 run "${plan[@]}" --backend cuda
says "^simsearch: cuda: is not a backend; expected host or cuda"
run 6 run "${plan[@]}" --comm mpi
says "^simsearch: mpi: simsearch-mpi.so was built without it"
run 6 run "${plan[@]}" --comm nccl
says "^simsearch: nccl: simsearch-cuda.so was built without it"

echo "not a library" >"$work/simsearch-cuda.so"
run 6 run "${plan[@]}" --backend cuda
says "^simsearch: cuda: .*simsearch-cuda.so"
rm "$work/simsearch-cuda.so"
run 6 run "${plan[@]}" --backend cuda
says "^simsearch: cuda: simsearch-cuda.so is not installed; .make. builds it if it finds the library that the plugin needs"

# Without the variable SIMSEARCH_PLUGINS, the error names the file that was found.
unset SIMSEARCH_PLUGINS
mkdir -p "$work/bin" "$work/lib/simsearch"
cp "$SIMSEARCH" "$work/bin/"
SIMSEARCH=$work/bin/$(basename "$SIMSEARCH")
make_plugin cuda "$ends"
for folder in bin/../lib/simsearch bin; do
    cp "$work/simsearch-cuda.so" "$work/$folder/"
    run 6 run "${plan[@]}" --backend cuda
    says "^simsearch: cuda: $work/$folder/simsearch-cuda.so was built from other sources"
done
exit $failed
