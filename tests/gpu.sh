#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has CUDA, PyTorch and perhaps nothing else of ours:
#
#   tests/gpu.sh bring [FOLDER]   where the packages are: puts into FOLDER (build/brought; a few MiB)
#                                 the libraries and headers that the other machine lacks
#   tests/gpu.sh                  there: builds, checks, measures; under 8 minutes
#
# Prints each section as it finishes and a table last; exits 1 when any failed. What the machine does
# not permit is skipped, with the reason.
# shellcheck disable=SC2317 # sections name functions
set -u
cd "$(dirname "$0")/.." || exit 1
brought=${2:-$PWD/build/brought}

# --- bringing --------------------------------------------------------------------------------

bring() {
    local include=$brought/include lib=$brought/lib name header library
    mkdir -p "$include" "$lib"
    for header in jansson.h jansson_config.h glpk.h check.h check_stdint.h; do
        cp "$(find /usr/include -name $header | head -n 1)" "$include/" || return 1
    done
    for name in jansson glpk; do
        library=$(cc -print-file-name=lib$name.so)
        [ "$library" != lib$name.so ] || { echo "lib$name.so is not here"; return 1; }
        cp -L "$library" "$lib/lib$name.so"
        # What it is asked for by, and what it needs itself.
        cp -L "$library" "$lib/$(objdump -p "$library" | awk '/SONAME/ { print $2 }')"
        ldd "$library" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|pthread|rt)\.so/ { print $3 }' |
            xargs -r cp -L -t "$lib"
    done
    for name in check check_pic subunit; do
        library=$(cc -print-file-name=lib$name.a)
        [ "$library" = lib$name.a ] || cp -L "$library" "$lib/"
    done
    du -sh "$brought"
}
if [ "${1:-}" = bring ]; then
    bring
    exit
fi

# --- sections --------------------------------------------------------------------------------

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=()
failed=0

# section TITLE COMMAND...: 77 means that it cannot be done here; the last line says why, or what was
# found.
section() {
    local title=$1 start=$SECONDS verdict=passed code
    shift
    printf '\n== %s\n' "$title"
    "$@" >"$work/log" 2>&1
    code=$?
    case $code in
        0) ;;
        77) verdict=skipped ;;
        *) verdict=FAILED failed=1 ;;
    esac
    if [ $verdict = FAILED ]; then tail -n 40 "$work/log"; else tail -n 12 "$work/log"; fi
    printf '== %s: %s, %d s\n' "$title" $verdict $((SECONDS - start))
    rows+=("$(printf '%-34s %-8s %4d s  %s' "$title" $verdict $((SECONDS - start)) \
        "$(tail -n 1 "$work/log" | cut -c1-90)")")
}

machine() {
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || return 1
    nvcc --version | grep release
    python3 -c 'import torch; print("PyTorch", torch.__version__)' || echo "no PyTorch"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
}

capability() {
    local found
    found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    [ "$found" != 90 ] || found=90a
    echo "$found"
}

# PyTorch's wheels bring NCCL where the toolkit has none.
nccl_home() {
    local cuda
    cuda=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
    if [ -e "$cuda/include/nccl.h" ]; then echo "$cuda"; else
        python3 - <<'EOF'
import importlib.util, os
spec = importlib.util.find_spec("nvidia.nccl")
print(list(spec.submodule_search_locations)[0] if spec else "")
EOF
    fi
}

link_nccl() { # a wheel has libnccl.so.2 alone
    mkdir -p "$work/nccl/lib"
    ln -sf "$1/include" "$work/nccl/include"
    ln -sf "$(find "$1/lib" "$1/lib64" -name 'libnccl.so.2*' 2>/dev/null | head -n 1)" \
        "$work/nccl/lib/libnccl.so.2"
    ln -sf libnccl.so.2 "$work/nccl/lib/libnccl.so"
}

build() {
    local flags=() nccl
    nccl=$(nccl_home)
    if [ "$nccl" ]; then
        link_nccl "$nccl"
        flags+=(NCCL_HOME="$work/nccl")
    else
        flags+=(NCCL=0)
    fi
    if [ -d "$brought" ]; then
        flags+=(CPPFLAGS="-I$brought/include" LDFLAGS="-B$brought/lib -L$brought/lib -Wl,-rpath,$brought/lib")
        export LD_LIBRARY_PATH=$brought/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    make -s -j"$(nproc)" MPI=0 CUDA_ARCHS="$(capability)" "${flags[@]}" all gpu-tests || return 1
    ls -l build/release/simsearch-cuda.so
}

op_tests() { build/release/tests/gpu_ops; }
step_tests() { build/release/tests/gpu_step; }

# --- several ranks ---------------------------------------------------------------------------

program=build/release/simsearch
small=(--model tiny --batch 8 --steps 4 --json)
losses() { sed -n '/"loss"/,/]/p' "$1" | grep -Eo '[0-9]+\.[0-9]{4}' | tr '\n' ' '; }
near() { # the same number of losses, each within 1e-3
    paste <(tr ' ' '\n' <<<"$1") <(tr ' ' '\n' <<<"$2") |
        awk 'NF == 2 { n++; d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3) bad = 1 }
             END { exit !(n == 4 && !bad) }'
}

# several_ranks COMM
several_ranks() {
    local layout found wanted one
    "$program" run "${small[@]}" --gpus 1 --layout "dtype=fp32" --backend host >"$work/one" || return 1
    one=$(losses "$work/one")
    for layout in "dp2" "tp2" "tp2 sp" "pp2 mb2" "dp2 zero1" "dp2 zero2" "dp2 zero3"; do
        SIMSEARCH_SHARE_GPUS=1 timeout 60 "$program" run "${small[@]}" --gpus 2 \
            --layout "$layout dtype=fp32" --backend cuda --comm "$1" --watchdog 30s >"$work/two"
        found=$? wanted=$one
        [ "$found" != 6 ] || { echo "$1 cannot be used here"; return 77; }
        [ "$found" = 0 ] || { echo "$layout: exit $found"; return 1; }
        near "$(losses "$work/two")" "$wanted" ||
            { echo "$layout: losses $(losses "$work/two"), on the host $wanted"; return 1; }
        echo "$layout: as on the host"
    done
    echo "7 layouts of 2 ranks over $1: losses as on the host"
}

# Each of two ranks on the GPU against two on the host, whose mathematics is that of the method.
# exchanges COMM
exchanges() {
    local exchange found run
    run=("${small[@]}" --gpus 2 --watchdog 30s)
    for exchange in ring tree ps:1 gossip:one-peer local:2 qsgd:8 topk:0.1 ef21:0.1 neolithic:0.1 powersgd:2; do
        "$program" run "${run[@]}" --layout "dp2 dtype=fp32 exchange=$exchange" >"$work/one" || return 1
        SIMSEARCH_SHARE_GPUS=1 timeout 60 "$program" run "${run[@]}" --backend cuda --comm "$1" \
            --layout "dp2 dtype=fp32 exchange=$exchange" >"$work/two"
        found=$?
        [ "$found" != 6 ] || { echo "$1 cannot be used here"; return 77; }
        [ "$found" = 0 ] || { echo "$exchange: exit $found"; return 1; }
        near "$(losses "$work/two")" "$(losses "$work/one")" ||
            { echo "$exchange: losses $(losses "$work/two"), on the host $(losses "$work/one")"; return 1; }
        echo "$exchange: as on the host"
    done
    echo "10 exchanges of 2 ranks over $1: losses as on the host"
}

# --- measuring -------------------------------------------------------------------------------

calibrate() {
    "$program" calibrate --backend cuda --quick -o "$work/here.json" || return 1
    "$program" --gpus 1 --model tiny --cluster "$work/here.json" --quiet || return 1
    echo "quick pass done"
}

# run_model MODEL LAYOUT
run_model() {
    [ -e "$work/here.json" ] || { echo "not calibrated"; return 77; }
    "$program" run --model "$1" --gpus 1 --cluster "$work/here.json" --batch 32 \
        --layout "$2" --backend cuda --steps 8 --json >"$work/run.json" || return 1
    python3 - "$work/run.json" <<'EOF'
import json, sys
run = json.load(open(sys.argv[1]))
measured, predicted = run["measured"], run["predicted"]
print("MFU measured %.1f %%, predicted %.1f %%; step %.4f s, predicted %.4f s" % (
    100 * measured["mfu"], 100 * predicted["mfu"], measured["step_s"], predicted["step_s"]))
EOF
}

# A small model in small microbatches: the host that launches is what takes the time.
launches() {
    local graphs
    for graphs in off on; do
        "$program" run --model tiny --gpus 1 --batch 64 --layout "mb1 dtype=bf16" --backend cuda \
            --steps 12 --graphs "$graphs" --json >"$work/$graphs.json" || return 1
    done
    python3 - "$work/off.json" "$work/on.json" <<'EOF'
import json, sys
off, on = (json.load(open(path)) for path in sys.argv[1:])
ops = sum(kind["count"] for kind in off["by_kind"].values())
saved = off["measured"]["step_s"] - on["measured"]["step_s"]
same = off["loss"] == on["loss"]
print("the same losses" if same else "OTHER LOSSES", on["graphs"])
print("step %.3f ms op by op, %.3f ms as graphs: %.2f us an op" % (
    1e3 * off["measured"]["step_s"], 1e3 * on["measured"]["step_s"], 1e6 * saved / ops))
sys.exit(not same)
EOF
}

# --- sanitizers ------------------------------------------------------------------------------

sanitize() { # TOOL
    command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer"; return 77; }
    timeout 120 compute-sanitizer --tool "$1" --error-exitcode 9 \
        build/release/tests/gpu_ops >"$work/sanitizer" 2>&1
    local code=$?
    tail -n 5 "$work/sanitizer"
    if grep -q 'Device not supported\|not supported on this' "$work/sanitizer"; then
        echo "this machine does not let compute-sanitizer see its GPU"
        return 77
    fi
    return "$code"
}

section "machine" machine
if [ $failed = 1 ]; then
    echo "no GPU: nothing else can be run"
    exit 1
fi
section "build" build
export SIMSEARCH_PLUGINS=$PWD/build/release SIMSEARCH_GEMM_TABLE=$work/gemm.table
if [ $failed = 0 ]; then
    section "ops against the host's" op_tests
    section "steps against the host's" step_tests
    section "two ranks, staged" several_ranks staged
    section "two ranks, NCCL" several_ranks nccl
    section "exchanges, staged" exchanges staged
    section "exchanges, NCCL" exchanges nccl
    section "graphs" launches
    section "calibrate --quick" calibrate
    section "gpt2, bf16" run_model gpt2 "mb8"
    section "gpt3-1.3b, bf16" run_model gpt3-1.3b "mb2"
    section "memcheck" sanitize memcheck
    section "racecheck" sanitize racecheck
fi
printf '\n%s\n' "${rows[@]}"
exit $failed
