#!/usr/bin/env bash
# Tests the CUDA backend on a machine without a GPU. If the plugin, the driver or the GPU is
# missing, the program must fail with one line and exit code 6. tests/gpu.sh tests it with a GPU.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

plan=(--model tiny --batch 8 --layout "dtype=bf16" --steps 2)

# --- the program is not linked with CUDA --------------------------------------------------------

if command -v ldd >/dev/null && ldd "$SIMSEARCH" | grep -Ei 'cuda|cublas|nccl|nvidia'; then
    fail "the program itself is linked with a CUDA library"
fi

# --- the default stack of predictions for --backend cuda ----------------------------------------

run 0 --model tiny --gpus 1 --backend cuda
shows 'stack cuda'
shows "stack cuda, this program's executor on the requested backend"
run 0 --model tiny --gpus 1 --backend cuda --stack megatron-core
shows 'stack megatron-core'
run 0 --model tiny --gpus 1 --precision fp32 --stack torch-ddp -o "$work/plan.json" --quiet
run 0 simulate "$work/plan.json"
shows 'stack torch-ddp'
run 0 --model tiny --gpus 1
shows 'stack megatron-core'
run 0 run "${plan[@]}" --gpus 1 --json
shows "stack host, this program's executor on the requested backend"

# --- no plugin ----------------------------------------------------------------------------------

# `make test` links the plugin without kernels, because nvcc takes long; `make campaign` links it with
# them.
folder=$SIMSEARCH_PLUGINS/no_kernels
[ -z "${CAMPAIGN:-}" ] || folder=$SIMSEARCH_PLUGINS
export SIMSEARCH_PLUGINS=$work
one_sentence() { [ "$(wc -l <"$work/err")" = 1 ] || fail "expected one line on stderr"; }
for gpus in 1 2; do
    run 6 run "${plan[@]}" --gpus $gpus --backend cuda
    says '^simsearch: cuda: simsearch-cuda.so is not installed'
    one_sentence
done
run 6 calibrate --backend cuda
says '^simsearch: cuda: simsearch-cuda.so is not installed'
one_sentence
run 0 list backends
shows '^host '
shows '^cuda .*not installed'
echo "not a library" >"$work/simsearch-cuda.so"
run 6 run "${plan[@]}" --gpus 1 --backend cuda
one_sentence
rm "$work/simsearch-cuda.so"
run 6 run "${plan[@]}" --gpus 1 --backend rocm
says 'simsearch-rocm.so is not installed'

# --- the plugin is there, but no GPU ------------------------------------------------------------

export SIMSEARCH_PLUGINS=$folder
if [ -e "$folder/simsearch-cuda.so" ]; then
    run 2 run "${plan[@]}" --gpus 1 --backend host --comm staged
    says '^simsearch: --comm: staged communicates from the memory of cuda, but the backend is host'
    if ! nvidia-smi -L >/dev/null 2>&1; then
        for gpus in 1 2; do
            run 6 run "${plan[@]}" --gpus $gpus --backend cuda
            says '^simsearch: cuda: .*(no NVIDIA driver|finds no GPU)'
            one_sentence
        done
        run 6 calibrate --backend cuda
        says '^simsearch: cuda: .*(no NVIDIA driver|finds no GPU)'
        one_sentence
        run 0 list backends
        shows '^cuda .*(no NVIDIA driver|finds no GPU)'
    fi
fi
exit $failed
