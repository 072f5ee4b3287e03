#!/usr/bin/env bash
# Compiles the CUDA plugin with CUDA 12, without its nvcc. C sources are compiled with its headers,
# linked with its libraries, and loaded. Kernels are compiled by NVRTC, for each architecture.
#
#     pip install --target FOLDER --no-deps nvidia-cuda-runtime-cu12 nvidia-cuda-nvrtc-cu12 \
#         nvidia-cublas-cu12 nvidia-nccl-cu12
#     tests/cuda12.sh FOLDER [sm_80 sm_90a sm_100]
#
# NVRTC compiles device code only. The code that launches the kernels needs nvcc, so it is not tested
# here.
set -eu
[ -d "${1:-}/nvidia/cuda_nvrtc" ] || { echo "expected the folder of the packages; the top of $0 explains it" >&2; exit 2; }
packages=$(realpath "$1")/nvidia
shift
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Builds a folder like that of a toolkit from the installed packages.
mkdir -p "$work/cuda/include" "$work/cuda/lib"
for part in cuda_runtime cuda_nvrtc cublas nccl; do
    ln -sf "$packages/$part/include/"* "$work/cuda/include/"
    ln -sf "$packages/$part/lib/"* "$work/cuda/lib/"
done
for library in cublasLt nvrtc nccl; do
    ln -sf "$(basename "$packages"/*/lib/lib$library.so.*)" "$work/cuda/lib/lib$library.so"
done
export LD_LIBRARY_PATH=$work/cuda/lib

grep -h -E '#define (CUDART_VERSION|CUBLAS_VER_(MAJOR|MINOR|PATCH)|NCCL_(MAJOR|MINOR|PATCH)) ' \
    "$work/cuda/include/"{cuda_runtime_api,cublas_api,nccl}.h | sort -u

# --- sources in C -------------------------------------------------------------------------------

out=$work/build/release
gcc -std=c17 -Wall -Wextra -Werror -I. -isystem "$work/cuda/include" -fPIC -c -o "$work/left_out.o" \
    tests/cuda12/left_out.c
make -s CI=1 CUDA=1 NCCL=1 BUILD="$work/build" CUDA_HOME="$work/cuda" CUDA_CU= CUDA_LIBS="$work/left_out.o -L$work/cuda/lib -Wl,-rpath,$work/cuda/lib -lcublasLt \
    -lcudart_static -lnccl -lstdc++ -lm -lpthread -ldl -lrt" "$out/simsearch-cuda.so"
make -s CUDA=0 build/release/simsearch
SIMSEARCH_PLUGINS=$out build/release/simsearch list backends | grep cuda

# --- kernels ------------------------------------------------------------------------------------

gcc -std=c17 -Wall -Wextra -Werror -isystem "$work/cuda/include" -o "$work/nvrtc" \
    tests/cuda12/nvrtc.c -L"$work/cuda/lib" -lnvrtc
failed=0
[ $# -gt 0 ] || set -- sm_80 sm_90a sm_100
for arch; do
    for kernel in kernels/cuda/*.cu; do
        "$work/nvrtc" "$kernel" "$arch" tests/cuda12/include || { failed=1; echo "$kernel does not compile for $arch"; }
    done
done
exit $failed
