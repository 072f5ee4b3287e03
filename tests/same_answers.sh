#!/usr/bin/env bash
# usage: tests/same_answers.sh BASE [PATTERN]   (make same-answers BASE=COMMIT)
#
# Builds the commit BASE, and runs it and the program in $SIMSEARCH with the same command lines
# ("questions"). The function `questions` prints them; PATTERN, an extended regular expression, selects
# some. Text, JSON, files written and exit codes must be equal byte for byte, except measured times.
# Runs on the host must have equal losses, bit by bit. Prints what differs and exits 1 if anything does.
#
# KEEP=FOLDER keeps both answers, FOLDER/base and FOLDER/here, for a closer look.
# shellcheck disable=SC2016 # questions name $out, which is another folder for each of the two
set -u
cd "$(dirname "$0")/.." || exit 1
base=${1:?a commit to compare with} pattern=${2:-.}
commit=$(git rev-parse --short "$base^{commit}") || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kept=${KEEP:-$work}
trees=${BUILD:-$PWD/build}/same

# --- questions ----------------------------------------------------------------------------------

search_questions() {
    local method objective model
    for method in bnb exhaustive dp milp zo rl random; do
        echo "search --gpus 64 --model gpt3-1.3b --method $method"
        echo "search --gpus 32 --model llama2-7b --seq 4096 --method $method --json"
    done
    for method in dp milp; do
        echo "search --gpus 16 --model gpt3-2.7b --method $method --fix pp4 --uneven"
        echo "search --gpus 16 --model gpt3-2.7b --method $method --fix pp4 --recompute-mixes --max-memory '30 GiB'"
    done
    echo "search --gpus 16 --model gpt3-2.7b --method milp --fix pp4 --uneven --stage-types 2 --json"
    echo "search --gpus 16 --model gpt3-2.7b --method milp --fix pp4 --recompute-mixes --same-recompute"
    echo "search --gpus 16 --model gpt3-2.7b --method milp --fix 'pp4 offload=optimizer' --host-memory '256 GiB'"
    for objective in time cost memory; do
        echo "search --gpus 128 --model gpt3-13b --objective $objective --price '2 \$/h' --tokens 300Btok"
    done
    for method in bnb exhaustive; do
        for objective in cost memory; do
            echo "search --gpus 64 --model llama3-8b --method $method --objective $objective --placement --json"
        done
    done
    for method in zo rl random; do
        echo "search --gpus 64 --model llama3-8b --method $method --budget 500 --seed 7 --objective memory"
    done
    for method in bnb dp milp; do
        echo "search --gpus 16 --model llama3-8b --method $method --fix pp4 --uneven --recompute-mixes --json --top 3"
    done
    echo "search --gpus 64 --model gpt3-1.3b --cluster p3-v100-16g --objective time-to-accuracy --json"
    echo "search --gpus 32 --model gpt3-350m --cluster p3-v100-16g --objective time-to-accuracy --convergence \$out/absent.json"
    for model in llama3-8b llama3-70b gpt3-175b bloom-176b qwen2.5-7b opt-175b; do
        echo "search --gpus 512 --model $model --top 8"
        echo "search --gpus 256 --model $model --cluster dgx-a100-80g --json --top 20"
    done
    echo "search --gpus 1024 --model 175b"
    echo "search --gpus 1024 --model 175b --compare 'tp8 pp16 mb1 vpp3 sp zero1'"
    echo "search --gpus 1024 --model 175b --pareto"
    echo "search --gpus 1024 --model 175b --deadline 30d"
    echo "search --gpus 1024 --model 175b --robust 0.1"
    echo "search --gpus 256 --model 175b --placement --json"
    echo "search --gpus 8 --largest llama"
    echo "search --gpus 16 --model gpt3-6.7b --largest layers"
    echo "search --gpus 32 --model llama3-8b --fix pp8 --uneven"
    echo "search --gpus 8 --model gpt3-175b"
    echo "search --gpus 8 --model gpt3-175b --json"
    echo "search --gpus 64 --model gpt3-6.7b --fix zero3 --forbid 'tp2 sp'"
    echo "search --gpus 64 --model gpt3-6.7b --cluster hgx-h100-roce --stack torchtitan -o \$out/plan.json"
    echo "search --gpus 64 --model gpt3-6.7b --precision fp8 --cluster dgx-b200"
    echo "search --gpus 72 --model llama3-8b --cluster gb200-nvl72 --batch 576"
    echo "search --gpus 64 --model llama3-8b --jobs 1 --seed 3 --method zo --budget 2000 --json"
    for dtype in fp16 fp8-cs fp8-rowwise fp8-mx fp8-block bf16-pure fp32; do
        echo "search --gpus 32 --model llama3-8b --cluster dgx-b200 --precision $dtype --top 3 --json"
    done
    echo "search --nodes 4 --model mistral-7b --gbs 1Mtok --seq 8k --optimizer adam-8bit"
    echo "search --gpus 64 --gpu h200 --model qwen2.5-7b --fix 'exchange=local:4' --json"
    echo "search --gpus 64 --model llama3-8b --fix 'offload=optimizer shard=8' --forbid 'zero0 recompute=full' --json"
    echo "search --gpus 64 --model llama3-8b --fix 'cp2 cp-comm=a2a' --json"
    echo "search --gpus 64 --model llama3-8b --fix 'schedule=zb-h1 pp4' --json"
    echo "search --gpus 64 --model llama3-8b --fix 'overlap=none order=dp-tp-cp-pp' --max-memory '40 GiB' --json"
    echo "search --gpus 24 --model gpt2-xl --cluster rtx-2080ti-4 --stack torch-ddp --json"
}

# Layouts of a 13B model on 32 GPUs: they cover every schedule, recompute, ZeRO stage, context method,
# number type and exchange.
simulate_questions() {
    local ask='simulate --gpus 32 --model gpt3-13b --batch 64 --layout' layout
    local layouts=("tp4 pp4 mb1 sp zero1" "tp8 mb1" "tp2 pp8 mb2 sp" "tp4 pp4 mb1 schedule=naive"
        "tp4 pp4 mb1 schedule=gpipe" "tp4 pp4 mb1 vpp5 sp zero1" "tp4 pp4 mb1 vpp2 sp"
        "tp4 pp4 mb1 schedule=zb-h1 sp zero1" "tp4 pp4 mb1 schedule=zb-h2 sp zero1"
        "tp4 pp4 mb1 recompute=full" "tp4 pp4 mb1 recompute=full:5" "tp4 pp4 mb1 recompute=selective sp"
        "tp4 pp4 mb1 recompute=block:4 sp" "tp4 pp4 mb1 recompute=block:4,3,2,1 sp"
        "tp8 sp mb1 zero2" "tp8 sp mb1 zero3" "tp1 mb1 zero3 recompute=full" "tp2 sp mb1 zero3 shard=4"
        "tp1 mb1 zero2 shard=8 recompute=full" "tp2 cp2 mb1 zero1 sp" "tp2 cp4 mb1 zero3 sp cp-comm=all-gather"
        "tp2 cp4 mb1 sp cp-comm=a2a recompute=selective" "tp4 pp4 mb1 sp dtype=fp8" "tp4 pp4 mb1 sp dtype=fp16"
        "tp4 pp4 mb1 sp dtype=bf16-pure" "tp4 pp4 mb1 sp grad=bf16 reduce=bf16" "tp4 pp4 mb1 attn=unfused"
        "tp4 pp4 mb1 overlap=none" "tp4 pp4 mb1 sp overlap=grad,param,p2p,tp zero1" "tp4 pp4 mb1 order=tp-cp-pp-dp"
        "tp4 pp4 mb1 optimizer=adam-8bit zero1" "tp4 pp4 mb1 optimizer=sgd" "tp8 sp mb1 offload=optimizer zero1"
        "tp8 sp mb1 offload=activations" "tp4 pp4 mb1 stages=11,10,10,9 sp" "tp4 pp4 mb1 stages=0,20,20,0 sp"
        "tp2 mb1 recompute=full exchange=ring" "tp8 mb1 exchange=local:4" "tp8 mb1 exchange=gossip:one-peer"
        "tp8 mb1 exchange=ps:1" "tp8 mb1 exchange=topk:0.01" "tp8 mb1 exchange=powersgd:4" "tp8 mb1 exchange=qsgd:8"
        "tp4 pp4 mb1 vpp2 zero1 sp recompute=selective overlap=grad,param" "tp2 pp4 mb1 vpp2 zero1 recompute=full:2"
        "tp4 pp2 mb1 schedule=zb-h2 zero1 overlap=none" "tp4 pp4 mb1 schedule=gpipe zero1 sp overlap=grad"
        "tp2 pp2 cp2 mb1 sp zero1" "tp1 pp2 cp4 mb1 cp-comm=all-gather recompute=full" "tp2 cp4 mb1 zero3 sp shard=4"
        "tp2 pp2 mb1 zero1 shard=4 sp recompute=full" "tp8 sp mb1 zero2 shard=2" "tp8 sp mb1 offload=optimizer,activations zero1"
        "tp4 pp4 mb1 offload=optimizer sp overlap=grad" "tp8 sp mb1 zero3 offload=optimizer" "tp4 pp4 mb1 sp dtype=fp32"
        "tp4 pp4 mb1 sp optimizer=momentum" "tp4 pp4 mb1 sp optimizer=adafactor zero1" "tp4 pp4 mb1 sp optimizer=adam-bf16"
        "tp4 pp4 mb1 sp grad=bf16" "tp4 pp4 mb1 order=dp-tp-cp-pp zero1" "tp4 pp4 vpp2 mb1 stages=4,6,5,5,5,5,6,4 sp zero1"
        "tp8 mb1 exchange=hierarchical" "tp8 mb1 exchange=tree" "tp4 pp2 mb1 exchange=pga:6" "tp8 mb1 exchange=aga:4"
        "tp8 mb1 exchange=gossip:one-peer:combine=beside" "tp8 mb1 exchange=gossip:exp:group=2" "tp8 mb1 exchange=ef21:0.01"
        "tp8 mb1 exchange=neolithic:0.01 overlap=grad" "tp4 pp2 mb1 exchange=pga:4:group=2")
    for layout in "${layouts[@]}"; do
        echo "$ask '$layout'"
        echo "$ask '$layout' --json"
    done
    for layout in "tp4 pp4 mb1 vpp5 sp zero1" "tp4 pp4 mb1 schedule=zb-h1 sp" "tp8 sp mb1 zero2"; do
        echo "$ask '$layout' --gantt"
        echo "$ask '$layout' --schedule-text"
        echo "$ask '$layout' --draws 5 --seed 2 --json"
        echo "$ask '$layout' --trace \$out/trace.json"
        echo "explain --gpus 32 --model gpt3-13b --batch 64 --layout '$layout'"
        echo "explain --gpus 32 --model gpt3-13b --batch 64 --layout '$layout' --json"
    done
    for layout in "tp4 pp4 mb1 schedule=zb-h2 sp" "tp8 mb1 sp zero3" "tp2 pp4 cp2 mb1 vpp2 recompute=full" "tp4 pp2 mb1 exchange=gossip:ring"; do
        echo "$ask '$layout' --gantt"
        echo "$ask '$layout' --schedule-text"
        echo "$ask '$layout' --draws 5 --seed 2 --json"
    done
    for stack in nemo torchtitan megatron-2021 deepspeed-zero3 xla; do
        echo "simulate --gpus 32 --model llama3-8b --batch 64 --stack $stack --layout 'tp2 pp4 mb1 zero1' --json"
        echo "simulate --gpus 64 --model llama3-8b --batch 64 --stack $stack --layout 'mb1 zero3 recompute=full' --json"
    done
    for dtype in fp8 fp8-cs fp8-rowwise fp8-mx fp8-block; do
        echo "simulate --gpus 32 --model llama3-8b --cluster dgx-b200 --batch 64 --layout 'tp2 sp zero1 mb1 dtype=$dtype' --json"
        echo "simulate --gpus 32 --model llama3-8b --cluster dgx-b200 --batch 64 --layout 'zero3 mb1 dtype=$dtype' --json"
    done
    for model in gpt2-xl opt-175b bloom-176b llama2-70b qwen2.5-7b mistral-7b; do
        echo "simulate --gpus 64 --model $model --cluster dgx-a100-80g --batch 64 --layout 'pp2 mb1 zero1 recompute=selective' --json"
    done
    echo "simulate --nodes 4 --model llama3-8b --seq 8k --batch 128 --tokens 1T --price 2 --precision fp16 --layout 'tp2 mb1'"
    echo "simulate --gpus 16384 --model llama3-405b --seq 8192 --batch 2048 --cluster meta-grand-teton --layout 'tp8 pp16 mb1 sp zero1 stages=7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7'"
    echo "explain --gpus 32 --model gpt3-13b --batch 64 --layout 'tp8 sp mb1' --partition"
    echo "explain --gpus 32 --model gpt3-13b --batch 64 --layout 'tp8 sp mb1' --compare 'tp4 pp4 mb1 vpp5 sp zero1'"
}

other_questions() {
    local list
    for list in models gpus clusters stacks profiles schedules rules layout methods exchanges texts; do
        echo "list $list"
    done
    echo "validate"
    echo "validate --why --json"
    echo "validate --source megatron2021 --json --jobs 1"
    echo "validate --source zerobubble2023 --tolerance 0.01"
    echo "validate --report \$out/report"
    echo "explain --from-run 'params=175B tokens=300B gpus=1024 gpu=a100 days=34' --json"
    echo "explain --gpus 64 --model llama3-8b --cluster dgx-a100-80g --seq 8192 --batch 64 --layout 'tp2 cp2 pp2 mb1 zero1' --json"
    echo "explain --gpus 64 --model opt-175b --stack megatron-2021 --batch 64 --layout 'tp8 pp8 mb1 recompute=full' --price 2 --tokens 300B"
    echo "validate --predictions \$out/predictions.csv"
    echo "fit --check"
    echo "search --gpus 7 --model nothing"
    echo "simulate --gpus 32 --model gpt3-13b --layout 'tp3 pp4'"
}

# Runs on the host, with at most two ranks, and only one if the machine has one core.
run_questions() {
    local layout
    for layout in "dtype=fp32" "mb2 recompute=full" "attn=unfused dtype=fp32" "dtype=fp16"; do
        echo "run --gpus 1 --model tiny --batch 8 --steps 3 --json --layout '$layout'"
    done
    for layout in "dp2 dtype=fp32" "tp2 sp" "pp2 mb2" "dp2 zero2" "dp2 zero3 dtype=fp32" "dp2 exchange=qsgd:8" \
        "pp2 mb1 schedule=zb-h1" "pp2 mb1 vpp2 recompute=block:1" "pp2 mb1 stages=1,3 recompute=selective" \
        "pp2 mb1 schedule=gpipe" "dp2 zero1 optimizer=sgd" "dp2 zero1" "tp2 dtype=fp32 attn=unfused" \
        "dp2 exchange=ring" "dp2 exchange=local:2" "dp2 exchange=powersgd:4" "dp2 exchange=topk:0.1"; do
        echo "run --gpus 2 --model tiny --batch 8 --steps 3 --json --layout '$layout'"
    done
    echo "run --gpus 1 --model tiny --batch 8 --steps 4 --clip 0.5 --lr-warmup 2 --rate 0.01 --seed 5 --data workshop --json --layout 'mb4'"
}

questions() {
    { search_questions; simulate_questions; other_questions; run_questions; } | grep -E -- "$pattern"
}

# --- answers ------------------------------------------------------------------------------------

# Removes measured times and the name of the folder from an answer. Of a run only losses and norms are
# kept.
plain() { # QUESTION
    case $1 in
        run*) sed -n '/"loss"/,/]/p; /"gradient_norm"/,/]/p; /^exit/p' ;;
        *) sed -E -e "s:$out:OUT:g" -e 's/"elapsed_s": [-0-9.e+]*/"elapsed_s": T/' \
            -e 's/ in [0-9.]+ (us|ms|s)([ ,:]|$)/ in T\2/g' -e 's/[0-9 ]+ (evaluations|plans) a second/N/' ;;
    esac
}

# answer WHO PROGRAM DATA NUMBER QUESTION
answer() {
    local who=$1 program=$2 data=$3 number=$4 question=$5 out
    out=$(mktemp -d)
    {
        (
            eval "set -- $question"
            cd "$data" && SIMSEARCH_DATA=$data COLUMNS=120 timeout 300 "$program" "$@" 2>"$out/.err" </dev/null
        )
        echo "exit $?"
        grep -v $'\r' "$out/.err" # progress
        find "$out" -type f ! -name .err | LC_ALL=C sort | while read -r file; do
            echo "== ${file##*/}"
            cat "$file"
        done
    } | plain "$question" >"$kept/$who/$number"
    rm -rf "$out"
}

# --- both ---------------------------------------------------------------------------------------

build_base() {
    local folder
    for folder in "$trees"/*; do # of other commits
        [ "$folder" = "$trees/$commit" ] || rm -rf "$folder"
    done
    if [ ! -e "$trees/$commit/Makefile" ]; then
        mkdir -p "$trees/$commit"
        git archive "$commit" | tar x -C "$trees/$commit" || return 1
    fi
    # without the options, variables and object folder of the running make
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u BUILD make -s -C "$trees/$commit" CUDA=0 MPI=0 -j"$(nproc)" all >"$work/log" 2>&1 ||
        { cat "$work/log"; return 1; }
}

mkdir -p "$kept/base" "$kept/here"
build_base || { echo "$commit does not build"; exit 1; }
before=$trees/$commit
number=0 different=0
while read -r question; do
    number=$((number + 1))
    name=$(printf '%03d' $number)
    answer base "$before/build/release/simsearch" "$before" "$name" "$question" &
    answer here "$SIMSEARCH" "$PWD" "$name" "$question"
    wait
    cmp -s "$kept/base/$name" "$kept/here/$name" && continue
    different=$((different + 1))
    printf '\n%s: simsearch %s\n' "$name" "$question"
    diff "$kept/base/$name" "$kept/here/$name" | head -n "${LINES_SHOWN:-12}"
done < <(questions)
printf '\n%d questions, %d answered otherwise than by %s\n' $number $different "$commit"
[ $number -gt 0 ] && [ $different = 0 ]
