#!/usr/bin/env bash
# usage: tests/same_answers.sh BASE [PATTERN]   (make same-answers BASE=COMMIT)
#
# Builds the commit BASE beside the program in $SIMSEARCH and asks both the same questions: every
# line of `questions` whose text matches the extended regular expression PATTERN. Text, JSON, files
# written and exit codes must be the same byte for byte; times that a clock gave are blanked. Of
# runs on the host the losses must be, to the bit. Prints what differs and exits 1 if anything does.
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

# --- questions -------------------------------------------------------------------------------

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
    echo "search --gpus 16 --model gpt3-2.7b --method milp --fix pp4 --host-memory '256 GiB'"
    for objective in time cost memory; do
        echo "search --gpus 128 --model gpt3-13b --objective $objective --price '2 \$/h' --tokens 300Btok"
    done
    echo "search --gpus 64 --model gpt3-1.3b --cluster p3-v100-16g --objective time-to-accuracy --json"
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
}

# Layouts of one 13B on 32 GPUs: every schedule, recompute, ZeRO, context method, type, exchange.
simulate_questions() {
    local ask='simulate --gpus 32 --model gpt3-13b --batch 64 --layout' layout
    local layouts=("tp4 pp4 mb1 sp zero1" "tp8 mb1" "tp2 pp8 mb2 sp" "tp4 pp4 mb1 schedule=naive"
        "tp4 pp4 mb1 schedule=gpipe" "tp4 pp4 mb1 vpp5 sp zero1" "tp4 pp4 mb1 vpp2 sp"
        "tp4 pp4 mb1 schedule=zb-h1 sp zero1" "tp4 pp4 mb1 schedule=zb-h2 sp zero1"
        "tp4 pp4 mb1 recompute=full" "tp4 pp4 mb1 recompute=full:5" "tp4 pp4 mb1 recompute=selective sp"
        "tp4 pp4 mb1 recompute=block,4 sp" "tp4 pp4 mb1 recompute=block,4,3,2,1 sp"
        "tp8 sp mb1 zero2" "tp8 sp mb1 zero3" "tp1 mb1 zero3 recompute=full" "tp2 sp mb1 zero3 shard=4"
        "tp1 mb1 zero2 shard=8 recompute=full" "tp2 cp2 mb1 zero1 sp" "tp2 cp4 mb1 zero3 sp cp-comm=all-gather"
        "tp2 cp4 mb1 sp cp-comm=a2a recompute=selective" "tp4 pp4 mb1 sp dtype=fp8" "tp4 pp4 mb1 sp dtype=fp16"
        "tp4 pp4 mb1 sp dtype=bf16-pure" "tp4 pp4 mb1 sp grad=bf16 reduce=bf16" "tp4 pp4 mb1 attn=unfused"
        "tp4 pp4 mb1 overlap=none" "tp4 pp4 mb1 sp overlap=grad,param,p2p,tp zero1" "tp4 pp4 mb1 order=tp-cp-pp-dp"
        "tp4 pp4 mb1 optimizer=adam-8bit zero1" "tp4 pp4 mb1 optimizer=sgd" "tp8 sp mb1 offload=optimizer zero1"
        "tp8 sp mb1 offload=activations" "tp4 pp4 mb1 stages=11,10,10,9 sp" "tp4 pp4 mb1 stages=0,20,20,0 sp"
        "tp2 mb1 recompute=full exchange=ring" "tp8 mb1 exchange=local:4" "tp8 mb1 exchange=gossip:one-peer"
        "tp8 mb1 exchange=ps:1" "tp8 mb1 exchange=topk:0.01" "tp8 mb1 exchange=powersgd:4" "tp8 mb1 exchange=qsgd:8")
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
    echo "validate --predictions \$out/predictions.csv"
    echo "fit --check"
    echo "search --gpus 7 --model nothing"
    echo "simulate --gpus 32 --model gpt3-13b --layout 'tp3 pp4'"
}

# On the host; two ranks at most, where the machine has two cores.
run_questions() {
    local layout
    for layout in "dtype=fp32" "mb2 recompute=full" "attn=unfused dtype=fp32" "dtype=fp16"; do
        echo "run --gpus 1 --model tiny --batch 8 --steps 3 --json --layout '$layout'"
    done
    for layout in "dp2 dtype=fp32" "tp2 sp" "pp2 mb2" "dp2 zero2" "dp2 zero3 dtype=fp32" "dp2 exchange=qsgd:8" \
        "pp2 mb1 schedule=zb-h1"; do
        echo "run --gpus 2 --model tiny --batch 8 --steps 3 --json --layout '$layout'"
    done
}

questions() {
    { search_questions; simulate_questions; other_questions; run_questions; } | grep -E -- "$pattern"
}

# --- answers ---------------------------------------------------------------------------------

# Blank: a clock's times, and the folder that differs. Of a run: losses and norms alone.
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

# --- both ------------------------------------------------------------------------------------

build_base() {
    local folder
    for folder in "$trees"/*; do # of other commits
        [ "$folder" = "$trees/$commit" ] || rm -rf "$folder"
    done
    if [ ! -e "$trees/$commit/Makefile" ]; then
        mkdir -p "$trees/$commit"
        git archive "$commit" | tar x -C "$trees/$commit" || return 1
    fi
    # Not this make's options and variables, nor its folder of objects.
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
