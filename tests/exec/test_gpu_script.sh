#!/usr/bin/env bash
# Runs tests/gpu.sh with this machine as the GPU (tests/cuda_on_host). Checks only that the script runs
# and reports failures; its times have no meaning. Sections that measure use GPUs that compute nothing
# (tests/cuda_on_host/hollow.h). `make campaign` runs every section.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

BUILT=$(dirname "$SIMSEARCH") MODEL=$work/small.json KEPT=$work/kept
export BUILT MODEL KEPT SIMSEARCH_PLUGINS=$SIMSEARCH_PLUGINS/on_host PATH=$work/bin:$PATH
if [ ! -e "$SIMSEARCH_PLUGINS/simsearch-cuda.so" ]; then
    echo "the plugin is built only for the release variant, with a C++ compiler (package g++)"
    exit 77
fi
mkdir "$work/bin" "$work/lib"
cat >"$MODEL" <<'EOM'
{ "format": 1, "name": "small", "layers": 2, "hidden": 8, "heads": 2, "vocab": 16, "seq": 4,
  "norm": "layernorm", "activation": "gelu", "positions": "learned", "linear_bias": true,
  "tied": true, "dropout": 0, "batch": 8 }
EOM

# nvidia_smi SAYS CODE: makes a stand-in for nvidia-smi
nvidia_smi() {
    printf '#!/bin/sh\necho "%s"\nexit %d\n' "$1" "$2" >"$work/bin/nvidia-smi"
    chmod +x "$work/bin/nvidia-smi"
}

# gpu_script CODE [SECTIONS]: runs tests/gpu.sh and checks its exit code
gpu_script() {
    local expected=$1 code
    shift
    last=(tests/gpu.sh "$@")
    "$(dirname "$0")/../gpu.sh" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$expected" ] || { fail "expected exit $expected, not $code"; cat "$work/out"; }
}

nvidia_smi "No devices were found" 6
gpu_script 1
shows '^no GPU: nothing else can be run'

nvidia_smi "NVIDIA H200, 0.0" 0
if [ "${CAMPAIGN:-}" ]; then # tests/exec/test_cuda_run.sh has two ranks too
    gpu_script 0 '^two ranks, NCCL$'
    shows '^two ranks, NCCL +passed .* 7 layouts of 2 ranks over nccl: 7 have the host.s losses'
fi
mkdir "$work/presets" # models have one layer, because drawing initial weights on the host takes long
sed 's/"layers": 12/"layers": 1/; s/50257/512/' models/presets/gpt2.json >"$work/presets/gpt2.json"
export PRESETS=$work/presets
# If PyTorch is available, its step time is shown next to ours.
cat >"$work/bin/python3" <<'EOM'
#!/bin/sh
case $* in
    *torch_gpt_step.py*--layers\ 1\ --hidden\ 768\ --heads\ 12\ --seq\ 1024\ --mbs\ 8\ --microbatches\ 4*)
        echo '{"device": "none", "step_s": 0.25, "mfu": 0.5}' ;;
esac
EOM
chmod +x "$work/bin/python3"
SIMSEARCH_HOLLOW_GPUS=1 gpu_script 0 '^(graphs|gpt2, bf16|calibrate --refine)$'
shows '^graphs +passed .* the same losses'
shows '^measured \(predicted in docs/performance.md\), ms: step [0-9.]+ \([0-9.]+ \([0-9.]+ to .* products [0-9.]+ \([0-9.]+ .* MFU '
shows '^calibrate --refine +skipped .* not calibrated'
shows '^gpt2, bf16 +passed .* PyTorch [0-9.]+ %; step .* PyTorch 0\.2500 s'
grep -q '"title": "gpt2, bf16", "verdict": "passed".* "attention_ms": [0-9.]*,.* "registered_step_ms": [0-9.]*,.* "torch_step_s": 0.25 }' "$KEPT/result.json" ||
    fail "result.json has no figures: $(cat "$KEPT/result.json")"
run 4 --gpus 1 --model "$KEPT/result.json" # a JSON file of another kind
says 'is not a known key'
rm "$work/bin/python3"

# Sections without remaining time are listed, and are not recorded as done.
MINUTES=0 gpu_script 0
shows '^ +racecheck$'
shows '^Run the script again to continue'

# A missing file fails its section; the other sections still run.
MODEL=$work/none.json gpu_script 1 '^(two ranks, staged|calibrate --refine)$'
shows '^two ranks, staged +FAILED .* dp2: the host could not run it'
shows '^calibrate --refine +skipped .* not calibrated'

# Missing GPU information is reported before any measurement.
run 6 calibrate --backend cuda
says '^simsearch: nvml: '

last=(gpu_ops "bias gradient")
"$BUILT/tests/gpu/gpu_ops" "bias gradient" >"$work/out" || fail "gpu_ops failed"
shows '^1 of 1 ops give the host.s results'

# The kit contains the tree, the programs and their libraries. On a machine without a GPU it reports
# this.
mkdir -p "$work/built/tests/gpu"
cp "$SIMSEARCH" "$work/built/"
cp "$SIMSEARCH_PLUGINS/simsearch-cuda.so" "$work/built/"
cp "$BUILT"/tests/gpu/gpu_{ops,step} "$work/built/tests/gpu/"
last=(tests/gpu.sh pack)
BUILT=$work/built KIT_CUDA=0 KIT_GZIP='gzip -1' "$(dirname "$0")/../gpu.sh" pack "$work/kit.tar.gz" >"$work/out" || fail "the kit was not built"
shows 'tar xzf kit.tar.gz && simsearch-gpu-kit/tests/gpu.sh'
tar xzf "$work/kit.tar.gz" -C "$work"
nvidia_smi "No devices were found" 6
env -u BUILT -u KEPT "$work/simsearch-gpu-kit/tests/gpu.sh" >"$work/out" && fail "gpu.sh passed without a GPU"
shows '^no GPU: nothing else can be run'
[ -s "$work/simsearch-gpu-kit/build/release/gpu/result.json" ] || fail "the kit has left no result"
nvidia_smi "NVIDIA H200, 0.0" 0

if [ "${CAMPAIGN:-}" ]; then
    ln -s "$SIMSEARCH_PLUGINS/simsearch-cuda.so" "$work/lib/libnvidia-ml.so.1"
    export LD_LIBRARY_PATH=$work/lib
    gpu_script 0 'ops|ranks|exchanges|check$'
    cat "$work/out"
    SIMSEARCH_HOLLOW_GPUS=1 gpu_script 0 'graphs|calibrate|gpt'
    cat "$work/out"
fi
exit $failed
