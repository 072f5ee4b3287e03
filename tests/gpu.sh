#!/usr/bin/env bash
# Runs everything that needs a GPU, on a machine that has CUDA and PyTorch:
#
#   tests/gpu.sh                    builds, checks and measures for at most 9 minutes, most important
#                                   first; called again, it continues with the remaining sections
#   tests/gpu.sh SECTIONS           only the sections whose title matches this extended regular
#                                   expression, even if they were done before
#   MINUTES=30 tests/gpu.sh         another limit
#   tests/gpu.sh bring              on a machine with the packages: copies the libraries and headers
#                                   that the other machine lacks to build/brought (a few MiB)
#   tests/gpu.sh pack KIT.tar.gz    on the machine that builds (`make gpu-kit`): packs this tree, the
#                                   built programs and their libraries, for a machine with a driver
#                                   and a GPU. KIT_CUDA=0 omits cuBLASLt and NCCL, which PyTorch
#                                   contains
#
# Prints each section when it ends, and a table at the end; exits 1 if any section failed. Sections
# that cannot run on the machine are skipped, with the reason. build/release/gpu keeps a folder per
# section and result.json, which is rewritten after each section.
#
# tests/exec/test_gpu_script.sh tests this script on threads instead of GPUs. For that BUILT=FOLDER has
# the built programs, MODEL=FILE is the model for several ranks, PRESETS=FOLDER has the models for
# single GPUs, and KEPT=FOLDER replaces build/release/gpu.
# shellcheck disable=SC2317 # sections name functions
set -u
cd "$(dirname "$0")/.." || exit 1

brought=$PWD/build/brought
built=${BUILT:-$PWD/build/release}
kept=${KEPT:-$built/gpu}
presets=${PRESETS:-models/presets}

# --- copying libraries from another machine -----------------------------------------------------

# Libraries of a program, without those of the C library and the compiler, which the other machine
# has.
libraries_of() {
    ldd "$1" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+)\.so/ { print $3 }'
}

# The path of a header, found by the compiler, because folders of other packages may have headers of the
# same name.
header_named() {
    echo "#include <$1>" | cc -M -x c - | tr ' ' '\n' | grep "/$1\$" | head -n 1
}

bring() {
    local name header library
    mkdir -p "$brought/include" "$brought/lib"
    for header in jansson.h jansson_config.h glpk.h check.h check_stdint.h; do
        cp "$(header_named $header)" "$brought/include/" || return 1
    done
    for name in jansson glpk; do
        library=$(cc -print-file-name=lib$name.so)
        [ "$library" != lib$name.so ] || { echo "lib$name.so is missing"; return 1; }
        cp -L "$library" "$brought/lib/lib$name.so"
        # Copies the library under the name by which it is requested, then the libraries that it
        # needs.
        cp -L "$library" "$brought/lib/$(objdump -p "$library" | awk '/SONAME/ { print $2 }')"
        libraries_of "$library" | xargs -r cp -L -t "$brought/lib"
    done
    for name in check check_pic subunit; do
        library=$(cc -print-file-name=lib$name.a)
        [ "$library" = lib$name.a ] || cp -L "$library" "$brought/lib/"
    done
    du -sh "$brought"
}

# The kit contains the tree with local changes, so that it can be rebuilt if the prebuilt programs
# do not start (an older C library, another major release of CUDA).
pack() { # KIT
    local kit=$1 plugin=$built/simsearch-cuda.so file
    local name=simsearch-gpu-kit
    for file in "$built/simsearch" "$plugin" "$built/tests/gpu/gpu_ops" "$built/tests/gpu/gpu_step"; do
        [ -e "$file" ] || { echo "$file is not built: \`make gpu-kit\` builds it"; return 1; }
    done
    packing=$(mktemp -d) || return 1
    trap 'rm -rf "$packing"' EXIT
    mkdir -p "$packing/$name/build/release/tests/gpu"
    bring >/dev/null || return 1
    git ls-files -z --cached --others --exclude-standard |
        tar c --null -T - | tar x -C "$packing/$name" || return 1
    cp "$built/simsearch" "$plugin" "$packing/$name/build/release/"
    cp "$built/tests/gpu/gpu_ops" "$built/tests/gpu/gpu_step" "$packing/$name/build/release/tests/gpu/"
    cp -r "$brought" "$packing/$name/build/"
    if [ "${KIT_CUDA:-1}" = 1 ]; then
        libraries_of "$plugin" | xargs -r cp -L -t "$packing/$name/build/brought/lib" || return 1
    fi
    git describe --always --dirty >"$packing/$name/build/prebuilt"
    tar c --use-compress-program="${KIT_GZIP:-gzip}" -f "$kit" -C "$packing" $name || return 1
    echo "$kit, $(du -h "$kit" | cut -f1): on the machine with the GPU"
    echo "    tar xzf ${kit##*/} && $name/tests/gpu.sh"
}
case ${1:-} in
    bring) bring; exit ;;
    pack) pack "${2:?a file for the kit}"; exit ;;
esac

# --- sections -----------------------------------------------------------------------------------

all_s=60 # time limit of the script; finding the GPU always has a minute
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
mkdir -p "$kept"
wanted=. # regular expression that selects sections by title
resumes= # set: completed sections are not repeated
titles=() groups=() folders=() most_s=() rows=() records=()
next=0 # number of the first section that `finish` has not reported
left=() # titles of sections without remaining time
table= # table of tuned products; if empty, each section has its own
failed=0

# Runs COMMAND, then writes its exit code and end time to a file. The script reads the file and so
# never waits for a process that cannot be killed.
run_section() { # COMMAND...
    "$@"
    echo "$? $SECONDS" >"$own/code.new"
    mv "$own/code.new" "$own/code"
}

# Records a measured number in result.json; sections call it.
figure() { # NAME NUMBER
    [ -z "$2" ] || echo "$1 $2" >>"$own/figures"
}

# The verdict of a section is valid only for the programs that it tested. This checksum identifies them.
programs_sum() { cat "$built/simsearch" "$built/simsearch-cuda.so" 2>/dev/null | cksum | cut -d' ' -f1; }
was_done() { # FOLDER
    [ "$resumes" ] && [ -e "$1/verdict" ] && [ "$(tail -n 1 "$1/verdict")" = "$(programs_sum)" ]
}

# begin TITLE SECONDS COMMAND...: starts a section, in parallel with those begun since `finish`. It
# has its own folder ($own) and is a process group that is ended after $most seconds.
begin() {
    local title=$1 own most=$2 left_s=$((all_s - SECONDS))
    shift 2
    [[ $title =~ $wanted ]] || return 0
    own=$kept/$(tr -cs 'a-zA-Z0-9\n' - <<<"$title")
    if was_done "$own"; then
        rows+=("$(head -n 1 "$own/verdict")  (before)")
        [[ ${rows[-1]} != *" FAILED "* ]] || failed=1
        records+=("$own/record.json")
        return 0
    fi
    [ "$most" -le $left_s ] || most=$left_s
    [ "$most" -ge 20 ] || { left+=("$title"); return 0; }
    rm -rf "$own"
    mkdir -p "$own"
    set -m
    # NCCL would otherwise write to stdout, between the answers.
    NCCL_DEBUG=WARN NCCL_DEBUG_FILE=$own/nccl.%p SIMSEARCH_GEMM_TABLE=${table:-$own/gemm.table} \
        run_section "$@" >"$own/log" 2>&1 </dev/null &
    set +m
    titles+=("$title") folders+=("$own") groups+=($!) most_s+=("$((SECONDS + most))")
    begun_s=$SECONDS
}

is_over() { [ -e "${folders[$1]}/code" ] || ! kill -0 "-${groups[$1]}" 2>/dev/null; }

stop() {
    local signal
    for signal in TERM KILL; do
        kill -$signal "-${groups[$1]}" 2>/dev/null
        for _ in {1..30}; do is_over "$1" && return; sleep 0.1; done
    done
}

# --- results ------------------------------------------------------------------------------------

quoted() { # TEXT: as JSON
    printf '"%s"' "$(tr -d '\000-\011\013-\037' <<<"$1" | tr '\n' ' ' | sed 's/\\/\\\\/g; s/"/\\"/g; s/ $//')"
}

# record FOLDER TITLE VERDICT SECONDS: writes the section's part of result.json
record() {
    local key number comma=""
    printf '    { "title": %s, "verdict": "%s", "seconds": %d, "last_line": %s, "figures": {' \
        "$(quoted "$2")" "${3,,}" "$4" "$(quoted "$(tail -n 1 "$1/log")")"
    [ ! -e "$1/figures" ] || while read -r key number; do
        printf '%s "%s": %s' "$comma" "$key" "$number"
        comma=,
    done <"$1/figures"
    printf ' } }'
}

# Rewrites the whole file in one step, so that it is complete even if the script is ended.
write_result() {
    local i comma=","
    {
        printf '{\n  "format": 1,\n  "date": "%s",\n  "commit": %s,\n  "machine": %s,\n  "sections": [\n' \
            "$(date -u +%F)" "$(quoted "$(cat build/prebuilt 2>/dev/null || git describe --always --dirty 2>/dev/null)")" \
            "$(quoted "$(tail -n 1 "$kept/machine/log" 2>/dev/null)")"
        for ((i = 0; i < ${#records[@]}; i++)); do
            [ $((i + 1)) -lt ${#records[@]} ] || comma=
            cat "${records[i]}"
            echo "$comma"
        done
        printf '  ]\n}\n'
    } >"$kept/result.json.new"
    mv "$kept/result.json.new" "$kept/result.json"
}

# Exit code 77 means that a section cannot run here; its last line has the reason or the result.
tell() {
    local title=${titles[$1]} own=${folders[$1]} code="" ended_s=$SECONDS verdict=FAILED lines=40 row
    local log=$own/log
    [ ! -e "$own/code" ] || read -r code ended_s <"$own/code"
    case $code in
        0) verdict=passed lines=12 ;;
        77) verdict=skipped lines=12 ;;
        "") echo "did not end in $((ended_s - begun_s)) s; last output: $(tail -n 1 "$log")" >>"$log" ;;
    esac
    printf '\n== %s\n' "$title"
    tail -n $lines "$log"
    if [ $verdict = FAILED ]; then
        failed=1
        tail -qn 5 "$own"/nccl.* 2>/dev/null
    fi
    printf '== %s: %s, %d s\n' "$title" $verdict $((ended_s - begun_s))
    row=$(printf '%-26s %-8s %4d s  %s' "$title" $verdict $((ended_s - begun_s)) \
        "$(tail -n 1 "$log" | cut -c1-140)")
    rows+=("$row")
    printf '%s\n%s\n' "$row" "$(programs_sum)" >"$own/verdict"
    record "$own" "$title" $verdict $((ended_s - begun_s)) >"$own/record.json"
    records+=("$own/record.json")
    write_result
}

finish() {
    for (( ; next < ${#titles[@]}; next++)); do
        until is_over $next; do
            [ $SECONDS -lt "${most_s[next]}" ] || { stop $next; break; }
            sleep 0.1
        done
        tell $next
    done
}
section() {
    begin "$@"
    finish
}
stop_all() {
    local group
    for group in "${groups[@]}" $watch; do kill -KILL "-$group" 2>/dev/null; done
}
watch=
trap stop_all EXIT
trap 'exit 1' INT TERM

# --- the machine --------------------------------------------------------------------------------

machine() {
    command -v nvidia-smi >/dev/null || { echo "no driver: nvidia-smi is missing"; return 1; }
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || return 1
    uname -srm
    echo "$(nproc) cores; /dev/shm: $(df -h --output=size /dev/shm | tail -n 1)"
    nvcc --version | grep release
    python3 -c 'from importlib.metadata import version; print("PyTorch", version("torch"))' 2>/dev/null ||
        echo "no PyTorch"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
}

# Records clocks and power every second. This also keeps the driver loaded; otherwise each process
# would wait for its start.
watch_gpu() {
    set -m
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used \
        --format=csv,noheader -l 1 >"$kept/clocks.csv" 2>/dev/null </dev/null &
    set +m
    watch=$!
}

# --- building -----------------------------------------------------------------------------------

capability() {
    local found
    found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    [ "$found" != 90 ] || found=90a
    echo "$found"
}

# Folders of the libraries that PyTorch's wheels contain.
wheels() {
    python3 -c '
import importlib.util
spec = importlib.util.find_spec("nvidia")
for path in spec.submodule_search_locations if spec else []: print(path)' | sed 's,$,/*,'
}

# home_of HEADER: where include/HEADER is: the toolkit, the system, or a wheel
home_of() {
    local home
    # shellcheck disable=SC2046 # a pattern of folders
    for home in "$toolkit" /usr $(wheels); do
        [ ! -e "$home/include/$1" ] || { echo "$home"; return 0; }
    done
    return 1
}

# links TO HOME HEADERS LIBRARY: links headers and a library, of which a wheel has only
# libLIBRARY.so.N
links() {
    local library
    library=$(find "$2"/lib*/ -name "lib$4.so.*" 2>/dev/null | sort | head -n 1)
    [ "$library" ] || { echo "no lib$4.so beside $2/include"; return 1; }
    mkdir -p "$1/include" "$1/lib"
    # shellcheck disable=SC2086 # a pattern
    ln -sfn "$2"/include/$3 "$1/include/"
    ln -sfn "$library" "$1/lib/"
    ln -sfn "$library" "$1/lib/lib$4.so"
}

# A toolkit may consist only of nvcc and the runtime.
find_cublas() { # TO
    local home
    home=$(home_of cublasLt.h) || { echo "no cublasLt.h"; return 1; }
    links "$1" "$home" 'cublas*' cublasLt || return 1
    ln -sfn "$toolkit"/include/* "$1/include/"
    ln -sfn "$(find -L "$toolkit" "$home" -name libcudart_static.a 2>/dev/null | head -n 1)" "$1/lib/"
}

# Whether the kit's programs start here, with the libraries of this machine or the kit.
use_prebuilt() {
    local folder
    [ -e build/prebuilt ] || return 1
    # shellcheck disable=SC2046 # a pattern of folders
    for folder in "$brought/lib" /usr/local/cuda/lib64 $(printf '%s/lib ' $(wheels)); do
        [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    done
    export LD_LIBRARY_PATH
    "$built/simsearch" --version >/dev/null 2>&1 && ! ldd "$built/simsearch-cuda.so" | grep 'not found'
}

build() {
    local found=$PWD/build/found flags toolkit nccl
    command -v nvcc >/dev/null || { echo "no nvcc"; return 1; }
    toolkit=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
    flags=(MPI=0 CUDA_ARCHS="$(capability)")
    if [ ! -e "$toolkit/include/cublasLt.h" ]; then
        find_cublas "$found/cuda" || return 1
        flags+=(CUDA_HOME="$found/cuda")
    fi
    if nccl=$(home_of nccl.h) && links "$found/nccl" "$nccl" 'nccl*' nccl; then
        flags+=(NCCL=1 NCCL_HOME="$found/nccl")
    else
        flags+=(NCCL=0)
    fi
    if [ -d "$brought" ]; then
        flags+=(CPPFLAGS="-I$brought/include")
        flags+=(LDFLAGS="-B$brought/lib -L$brought/lib -Wl,--disable-new-dtags,-rpath,$brought/lib")
    fi
    # The builds run one after the other, because both build the library.
    make -s -j"$(nproc)" "${flags[@]}" all && make -s -j"$(nproc)" "${flags[@]}" gpu-tests || return 1
    ls -l build/release/simsearch-cuda.so
}

# --- one GPU ------------------------------------------------------------------------------------

op_tests() { "$built/tests/gpu/gpu_ops"; }
torch_tests() { CK_RUN_CASE=torch "$built/tests/gpu/gpu_step"; }
step_tests() { CK_RUN_CASE=host "$built/tests/gpu/gpu_step"; }

has_torch() { python3 -c 'import torch' 2>/dev/null || { echo "no PyTorch"; return 1; }; }

# Measures each operation on the GPU: the raw table of a hardware profile.
probe() { # SECONDS
    has_torch || return 77
    python3 tests/gpu/gpu_probe.py "$own" --seconds "$1" || return 1
    awk -F, 'NR > 1 && $8 > best { best = $8 } END { print NR - 1, best }' "$own/gemm.csv" >"$own/best"
    figure best_product_tflops "$(cut -d' ' -f2 "$own/best")"
    echo "$(cut -d' ' -f1 "$own/best") products, the best at $(cut -d' ' -f2 "$own/best") TFLOP/s"
}

# --- several ranks ------------------------------------------------------------------------------

small=(--model "${MODEL:-tiny}" --batch 8 --steps 4 --json --watchdog 30s)
losses() { sed -n '/"loss"/,/]/p' "$1" | grep -Eo '[0-9]+\.[0-9]{6}' | tr '\n' ' '; }
near() { # compares two equally long lists of losses, within 1e-4; a wrong exchange differs more
    paste <(tr ' ' '\n' <<<"$1") <(tr ' ' '\n' <<<"$2") |
        awk 'NF == 2 { n++; d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4) bad = 1 }
             END { exit !(n == 4 && !bad) }'
}

# compare COMM LAYOUT WANTED: runs two ranks on the GPU; returns 6 if they cannot run
compare() {
    local code
    SIMSEARCH_SHARE_GPUS=1 timeout --foreground -k 5 45 "$program" run "${small[@]}" --gpus 2 \
        --layout "$2 dtype=fp32" --backend cuda --comm "$1" >"$own/two"
    code=$?
    [ "$code" = 0 ] || { echo "$2: exit $code"; return "$code"; }
    near "$(losses "$own/two")" "$3" ||
        { echo "$2: losses $(losses "$own/two"), on the host $3"; return 1; }
    echo "$2: losses equal the host's"
}

# each_of COMM WHAT WANTED LAYOUT...: runs all layouts, even if one fails. `WANTED LAYOUT` prints
# the host's losses.
each_of() {
    local comm=$1 what=$2 wanted=$3 layout losses bad=0
    shift 3
    for layout; do
        losses=$($wanted "$layout") || { echo "$layout: the host could not run it"; return 1; }
        compare "$comm" "$layout" "$losses"
        case $? in
            0) ;;
            6) grep '^simsearch: ' "$own/log" | tail -n 1; return 77 ;;
            *) bad=$((bad + 1)) ;;
        esac
    done
    echo "$# $what of 2 ranks over $comm: $(($# - bad)) have the host's losses"
    [ "$bad" = 0 ]
}

# of_one, of_two LAYOUT: losses of one or two ranks on the host. The losses of one rank are the same
# for every layout; exchanges other than all-reduce give other losses.
of_one() {
    [ -e "$own/one" ] || "$program" run "${small[@]}" --gpus 1 --layout "dtype=fp32" >"$own/one" || return 1
    losses "$own/one"
}
of_two() {
    "$program" run "${small[@]}" --gpus 2 --layout "$1 dtype=fp32" >"$own/one" || return 1
    losses "$own/one"
}

several_ranks() { # COMM
    each_of "$1" layouts of_one "dp2" "tp2" "tp2 sp" "pp2 mb2" "dp2 zero1" "dp2 zero2" "dp2 zero3"
}

exchanges() { # COMM
    local names=(ring tree ps:1 gossip:one-peer local:2 qsgd:8 topk:0.1 ef21:0.1 neolithic:0.1 powersgd:2)
    each_of "$1" exchanges of_two "${names[@]/#/dp2 exchange=}"
}

# --- measuring ----------------------------------------------------------------------------------

# number FILE OBJECT KEY: prints a number of a run's answer
number() { sed -n "/^  \"$2\": {/,/^  }/ s/^    \"$3\": \([-0-9.e+]*\).*/\1/p" "$1"; }
exact_losses() { sed -n '/"loss"/,/]/p' "$1"; }

# A small model with small microbatches: launches by the host dominate the time.
launches() {
    local graphs ops
    for graphs in off on; do
        "$program" run --model tiny --gpus 1 --batch 64 --layout "mb1 dtype=bf16" --backend cuda \
            --steps 12 --graphs "$graphs" --json >"$own/$graphs.json" || return 1
    done
    ops=$(sed -n '/^  "by_kind": {/,/^  }/ s/^      "count": \([0-9.]*\).*/\1/p' "$own/off.json" |
        awk '{ sum += $1 } END { print sum }')
    [ "$(exact_losses "$own/off.json")" = "$(exact_losses "$own/on.json")" ] ||
        { echo "the losses differ with graphs"; return 1; }
    awk -v off="$(number "$own/off.json" measured step_s)" -v on="$(number "$own/on.json" measured step_s)" \
        -v ops="$ops" 'BEGIN {
            printf "the same losses; step %.3f ms op by op, %.3f ms as graphs: %.2f us per op\n",
                1e3 * off, 1e3 * on, 1e6 * (off - on) / ops }'
}

calibrate() {
    rm -f "$here"
    "$program" calibrate --backend cuda --quick -o "$here" || return 1
    "$program" --gpus 1 --model tiny --cluster "$here" --quiet >/dev/null || return 1
    echo "quick pass done: $here"
}

# key_of FILE KEY: prints a number of a model's file
key_of() { sed -n "s/^ *\"$2\": \([0-9]*\),*\$/\1/p" "$1"; }

# Prints the seconds of the same step in PyTorch, in a process before ours; nothing if it fails.
torch_step_s() { # MODEL_FILE MICROBATCH MICROBATCHES
    has_torch >&2 || return
    python3 tests/gpu/torch_gpt_step.py --layers "$(key_of "$1" layers)" --hidden "$(key_of "$1" hidden)" \
        --heads "$(key_of "$1" heads)" --seq "$(key_of "$1" seq)" --mbs "$2" --microbatches "$3" \
        --weights bf16 --steps 8 --warmup 3 --json >"$own/torch.json" || return
    sed -n 's/.*"step_s": \([-0-9.e+]*\).*/\1/p' "$own/torch.json"
}

# part FILE KIND...: prints the milliseconds that a run measured for these kinds of ops
part() {
    local file=$1 kind
    shift
    for kind; do
        sed -n "/^    \"$kind\": {/,/}/ s/^ *\"measured_s\": \([-0-9.e+]*\),*/\1/p" "$file"
    done | awk '{ sum += $1 } END { printf "%.1f", 1e3 * sum }'
}

# beside_registered MODEL FILE: compares each part with the earlier prediction in
# docs/performance.md, and records both
beside_registered() {
    local gpu row products attention bandwidth key value
    products=$(part "$2" gemm)
    attention=$(part "$2" flash_attention)
    bandwidth=$(part "$2" norm residual activation embedding cross_entropy bias_grad rotary OPT)
    figure products_ms "$products"
    figure attention_ms "$attention"
    figure bandwidth_ms "$bandwidth"
    gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | grep -Eo 'H[12]00' | head -n 1)
    row=$(grep "^| $1 | ${gpu:-none} |" docs/performance.md)
    [ "$row" ] || { echo "docs/performance.md has no prediction for $1 on ${gpu:-this GPU}"; return; }
    while read -r key value; do
        figure "registered_$key" "$value"
    done < <(awk -F ' *[|] *' '{ print "step_ms", $4 + 0; print "mfu_percent", $5 + 0
        print "products_ms", $6 + 0; print "attention_ms", $7 + 0; print "bandwidth_ms", $8 + 0 }' <<<"$row")
    awk -F ' *[|] *' -v step="$(number "$2" measured step_s)" -v mfu="$(number "$2" measured mfu)" \
        -v products="$products" -v attention="$attention" -v bandwidth="$bandwidth" '{
            printf "measured (predicted in docs/performance.md), ms: step %.1f (%s), products %s (%s), attention %s (%s), ",
                1e3 * step, $4, products, $6, attention, $7
            printf "bandwidth %s (%s); MFU %.1f (%s) %%\n", bandwidth, $8, 100 * mfu, $5 }' <<<"$row"
}

# speed MODEL MICROBATCH MICROBATCHES: a step without dropout, as PyTorch's is
speed() {
    local cluster=() torch_s code batch=$(($2 * $3))
    if [ -e "$here" ]; then cluster=(--cluster "$here"); else echo "not calibrated"; fi
    sed 's/"dropout": [0-9][0-9.]*/"dropout": 0/' "$presets/$1.json" >"$own/model.json"
    torch_s=$(torch_step_s "$own/model.json" "$2" "$3")
    "$program" run --model "$own/model.json" --gpus 1 "${cluster[@]}" --batch "$batch" \
        --layout "mb$2" --backend cuda --steps 8 --json >"$own/run.json"
    code=$?
    [ "$code" != 3 ] || { echo "the model does not fit in this GPU's memory"; return 77; }
    [ "$code" = 0 ] || return 1
    beside_registered "$1" "$own/run.json"
    figure mfu "$(number "$own/run.json" measured mfu)"
    figure step_s "$(number "$own/run.json" measured step_s)"
    figure predicted_step_s "$(number "$own/run.json" predicted step_s)"
    figure torch_step_s "$torch_s"
    awk -v mfu="$(number "$own/run.json" measured mfu)" -v step="$(number "$own/run.json" measured step_s)" \
        -v predicted="$(number "$own/run.json" predicted step_s)" -v torch="$torch_s" 'BEGIN {
            printf "MFU measured %.1f %%, predicted %.1f %%", 100 * mfu, 100 * mfu * step / predicted
            if (torch) printf ", PyTorch %.1f %%", 100 * mfu * step / torch
            printf "; step %.4f s, predicted %.4f s", step, predicted
            if (torch) printf ", PyTorch %.4f s", torch
            print "" }'
}

# Refines the prediction by the measurements of one run.
refine() {
    [ -e "$here" ] || { echo "not calibrated"; return 77; }
    "$program" --model gpt2 --gpus 1 --cluster "$here" --batch 32 --backend cuda --quiet \
        -o "$own/plan.json" >/dev/null || return 1
    "$program" run "$own/plan.json" --backend cuda --steps 8 --json >"$own/run.json" || return 1
    "$program" calibrate --refine "$own/run.json" "$own/plan.json" -o "$own/refined.json" >"$own/refined" ||
        return 1
    sed 1!G\;h\;\$!d "$own/refined" # printed last: its first line
}

# Measures the gain of fused epilogues of products: each is disabled once.
epilogues() {
    local word with without ratios=()
    for word in "" wgrad_bias gemm_gelu; do
        sed "s/\"${word:-none}\", *//" calibration/stacks/cuda.json >"$own/stack.json"
        "$program" run --model gpt2 --gpus 1 --batch 32 --layout mb8 --backend cuda --steps 8 \
            --stack "$own/stack.json" --json >"$own/run.json" || return 1
        without=$(number "$own/run.json" measured step_s)
        with=${with:-$without}
        [ -z "$word" ] || ratios+=("$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.3f", b / a }') without $word")
    done
    printf 'step time relative to one with all epilogues: %s, %s\n' "${ratios[@]}"
}

# --- sanitizers ---------------------------------------------------------------------------------

sanitize() { # TOOL
    local code quiet=()
    command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer"; return 77; }
    # API errors are not reported, as the test checks every status itself, and "not ready", the
    # usual result of a query, is no error.
    [ "$1" != memcheck ] || quiet=(--report-api-errors no)
    timeout --foreground -k 5 $((most - 10)) compute-sanitizer --tool "$1" --target-processes all \
        "${quiet[@]}" --error-exitcode 9 "$built/tests/gpu/gpu_ops"
    code=$?
    if grep -q 'Device not supported\|not supported on this' "$own/log"; then
        echo "this machine does not let compute-sanitizer see its GPU"
        return 77
    fi
    [ "$code" = 124 ] || return "$code"
    ! grep -q '^========= .*\(Invalid\|hazard\|Error\)' "$own/log" || return 1
    echo "no fault found in $((most - 10)) s, but the check did not end"
    return 77
}

# --- all of it ----------------------------------------------------------------------------------

section "machine" 60 machine
[ $failed = 0 ] || { echo "no GPU: nothing else can be run"; exit 1; }
watch_gpu
all_s=$((${MINUTES:-9} * 60 - 15))
if [ ! "${BUILT:-}" ] && ! use_prebuilt; then
    section "build" 300 build
fi
program=$built/simsearch
here=$kept/here.json
wanted=${1:-.}
[ $# -gt 0 ] || resumes=1
export SIMSEARCH_DATA=$PWD SIMSEARCH_PLUGINS=${SIMSEARCH_PLUGINS:-$built}
if [ $failed = 0 ]; then
    # If SECTIONS names the probe, it may use its full time, otherwise a sixth. It writes the most
    # useful rows first.
    if [ $# = 0 ]; then probe_s=$((all_s / 6)); else probe_s=420; fi
    section "probe" $((probe_s + 40)) probe $probe_s
    begin "ops against the host's" 150 op_tests
    begin "steps against PyTorch's" 60 torch_tests
    finish
    table=$kept/gemm.table # table of the timed sections, each of which runs alone
    section "calibrate --quick" 180 calibrate
    section "gpt2, bf16" 80 speed gpt2 8 4
    section "gpt3-1.3b, bf16" 120 speed gpt3-1.3b 2 16
    section "gpt3-6.7b, bf16" 150 speed gpt3-6.7b 1 16
    table=
    begin "two ranks, NCCL" 100 several_ranks nccl
    begin "exchanges, NCCL" 100 exchanges nccl
    finish
    table=$kept/gemm.table
    section "graphs" 30 launches
    section "calibrate --refine" 40 refine
    section "epilogues" 60 epilogues
    table=
    begin "steps against the host's" 150 step_tests
    begin "two ranks, staged" 120 several_ranks staged
    begin "exchanges, staged" 120 exchanges staged
    finish
    begin "memcheck" 150 sanitize memcheck
    begin "racecheck" 150 sanitize racecheck
    finish
fi
echo
printf '%s\n' "${rows[@]}"
if [ ${#left[@]} -gt 0 ]; then
    printf 'No time was left for these sections:\n'
    printf '    %s\n' "${left[@]}"
    echo "Run the script again to continue."
fi
echo "$SECONDS s; kept in $kept, the figures in $kept/result.json"
exit $failed
