#!/usr/bin/env bash
# Tests exit codes, messages, JSON keys and files of all commands. SIMSEARCH is the program to test.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
fixtures=$here/fixtures/cli
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
export NO_COLOR=1
failures=0

fail() {
    failures=$((failures + 1))
    echo "simsearch ${ran[*]}: $1"
    echo "  exit $code; stderr: $(head -c 300 err)"
    echo "  stdout: $(head -c 300 out)"
}

# run CODE ARGUMENT...: checks the exit code, and that stderr has one line if the code is not 0.
ran=()
run() {
    local wanted=$1
    shift
    ran=("$@")
    "$SIMSEARCH" "$@" >out 2>err
    code=$?
    [ "$code" = "$wanted" ] || fail "expected exit $wanted"
    case $wanted in
    0 | 124) [ ! -s err ] || fail "expected nothing on stderr" ;;
    *) mapfile -t lines <err
        [[ ${#lines[@]} = 1 && ${lines[0]} = "simsearch: "* ]] ||
            fail "expected one line on stderr that begins with simsearch:" ;;
    esac
}
says() { grep -qE -e "$1" err || fail "stderr does not say /$1/"; }
shows() { grep -qE -e "$1" out || fail "stdout does not show /$1/"; }
hides() { ! grep -qE -e "$1" out || fail "stdout shows /$1/"; }
# True if searches that take a second are run. With sanitizers, which take ten times as long, they are
# skipped, because smaller searches run the same code.
asks_large() { [ "${VARIANT-}" != asan ]; }
silent() { [ ! -s out ] || fail "expected nothing on stdout"; }

tiny=(--gpus 2 --model tiny)
tp8=(--gpus 1024 --model 175b --layout "tp8 pp16 mb1 sp zero1")

# --- help ---------------------------------------------------------------------------------------

run 0 --help
shows "simsearch --gpus 1024 --model 175b"
run 0 --version
shows '^simsearch [0-9]+\.[0-9]+\.[0-9]+$'
for command in search simulate explain validate fit list; do
    run 0 "$command" --help
    shows "^  simsearch .*"
    shows "^  --json "
    run 0 help "$command"
done
run 0 search --gpus 8 -h
shows "^Options"
# --help groups its options, has at most 80 columns, and has no text about other commands.
for command in search simulate explain validate fit calibrate run design partition learn tune list; do
    COLUMNS=80 run 0 "$command" --help
    sed -n '/^Options/,/^Exit codes/p' out >options
    ! grep -E '^.{81}' options || fail "a line is wider than 80 columns"
    ! grep '\[[a-z]' options || fail "the text of an option has parts for other commands"
    grep -qE "^\.(It|Nm|Cm).*( |^)$command( |\$)" "$here/../docs/simsearch.1" ||
        fail "the manual does not name the command"
done
COLUMNS=80 run 0 calibrate --help
shows '^Measuring$'
shows '^  --output FILE, -o +Writes the cluster file'
hides 'plan file;|zo, rl'

# --- misspelt words -----------------------------------------------------------------------------

run 2 serach --gpus 8
says 'did you mean "search"\?'
run 2 "${tiny[@]}" --modle tiny
says '^simsearch: --modle: .*did you mean --model\?'
run 2 --gpus 2 --model tinyy
says 'did you mean "tiny"\?'
run 2 --gpus 2 --model tiny --cluster dgx-h10
says 'did you mean "dgx-h100"\?'
run 2 "${tiny[@]}" --stack megatron-cor
says 'did you mean "megatron-core"\?'
run 2 "${tiny[@]}" --method exhaustiv
says 'did you mean "exhaustive"\?'
run 2 list modles
says 'did you mean "models"\?'
run 2 simulate "${tiny[@]}" --layout "tp2 zerro1"
says 'did you mean "zero"\?'
run 2 "${tiny[@]}" --precision bf61
says 'bf16'
run 2 "${tiny[@]}" --layout tp2
says 'simulate, explain'
run 2 "${tiny[@]}" extra
run 2 simulate one.json two.json
run 2 list models gpus
run 2 list reference --json

# --- other spellings of values and options ------------------------------------------------------

# same "ARGUMENTS" "OTHERS": checks that both print the same.
same() {
    local first=$1 second=$2
    # shellcheck disable=SC2086 # words
    run 0 $first
    grep -v '^searched' out >first
    # shellcheck disable=SC2086
    run 0 $second
    grep -v '^searched' out | diff first - >changed || fail "its output differs from that of simsearch $first: $(head -3 changed)"
}
llama="--model llama2-7b --jobs 1 --top 1"
same "$llama --gpus 8 --seq 8k --tokens 100B --price 2" \
    "$llama --gpus 8 --seq 8192 --tokens 100Btok --price 2$/h"
same "$llama --nodes 2 --fix TP8 --forbid SP" "$llama --gpus 16 --fix tp8 --forbid sp"
same "$llama --nodes 18 --cluster gb200-nvl72" "$llama --gpus 72 --cluster gb200-nvl72"
same "$llama --gpus 64 --tokens 1T --deadline 4w" "$llama --gpus 64 --tokens 1T --deadline 28d"
run 2 "${tiny[@]}" --nodes 2
says '^simsearch: --nodes: 2 nodes of dgx-h100 have 16 GPUs, but --gpus says 2'
run 0 --gpus 8 --model tiny --cluster h100
shows '^assumed: cluster dgx-h100, the first preset that has the GPU h100$'
run 0 simulate "${tiny[@]}" --layout "DP2 MB1 ZeRO1 DTYPE=FP16"
shows '^  layout +tp1 pp1 dp2 mb1 zero1 dtype=fp16$'
run 0 simulate "${tiny[@]}" --layout tp2 -o two.json
run 0 simulate two.json --layout dp2
shows '^  layout +tp1 pp1 dp2'
mkdir weights
cp "$here/fixtures/huggingface/llama-2-7b.json" weights/config.json
run 0 --gpus 8 --model weights --top 1
shows '^ +sequence 4096 tokens, the largest number of positions of Llama-2-7b-hf$'
run 0 --gpus 8 --model mistral-7b --seq 8k --top 1
shows 'sliding window of 4096 that mistral-7b has is not modelled'
run 2 help serach
says 'did you mean "search"'

# A rack has 72 GPUs, which is not a power of two.
run 0 --gpus 72 --model llama3-70b --cluster gb200-nvl72 --space even --fix tp8 --json
shows '^  "gpus": 64,$'
shows '^  "asked_gpus": 72,$'
run 0 --gpus 144 --model llama3-70b --cluster gb200-nvl72 --space even --fix tp8
shows 'only 128 of 144 GPUs, 64 of the 72 in each rack'
shows '^  no plan divides batch 512 over 144 GPUs; similar requests that have a plan:$'

# If no plan can use all GPUs, some stay idle, or another batch is proposed.
if asks_large; then
    run 0 --gpus 1000 --model 175b
    shows '^ +only 960 of 1000 GPUs, as no plan divides batch 1536 evenly over all$'
    shows '^    960 GPUs .* GPU-hours \([0-9]+ \$\) per billion tokens: tp'
    shows '^    batch 1[0-9]+ .* per billion tokens: tp'
    shows '^    9[0-9]+ GPUs, batch 1[0-9]+ .* per billion tokens: tp4 pp'
    run 0 --gpus 1000 --model 175b --fix tp4 --json
    shows '^  "gpus": 960,$'
    shows '^  "asked_gpus": 1000,$'
    for key in relaxations change from to batch gpu_hours_per_billion_tokens; do
        shows "\"$key\": "
    done
fi
run 0 --gpus 1024 --model 175b --gbs 1537
shows '^  batch 1536 instead of 1537: [0-9.]+ s instead of [0-9.]+ s, [0-9]+ % more tokens/s$'
run 0 --gpus 8 --model llama3-8b --seq 8192 --gbs 4Mtok --top 1
shows 'batch 512 sequences \(4194304 tokens\), which has many divisors, instead of the 488.3 sequences that hold 4Mtok'
run 2 --gpus 1024 --model llama3-70b --seq 8192 --gbs 4194304
says 'write --batch 4194304tok for tokens, or --batch 4194304seq for sequences$'
run 0 --gpus 8 --model tiny --gbs 16seq --top 1 --json

# Documents packed into sequences.
long=(--gpus 64 --model llama3-8b --seq 32k --gbs 64 --top 1)
run 0 "${long[@]}"
shows '^ +one document per sequence: attention covers all 32768 tokens'
run 0 "${long[@]}" --documents mean=2k,cv=1
shows "^ +documents of 2048 tokens on average: attention costs as much as with sequences of 4096 tokens instead of 32768"
shows "^next  simsearch explain .* --documents mean=2k,cv=1 "
printf '4096 3 # three\n\n20480\n' >lengths
run 0 simulate --gpus 64 --model llama3-8b --seq 32k --gbs 64 --documents lengths --layout tp8 -o packed.json
shows "^ +documents of 8192 tokens on average: attention costs as much as with sequences of 14336 tokens"
run 0 simulate packed.json
shows "^assumed: documents of 8192 tokens on average: attention costs as much as with sequences of 14336 tokens"
printf '4096\n12 x\n' >lengths
run 4 "${long[@]}" --documents lengths
says '^simsearch: lengths:2: expected a length'
run 2 "${long[@]}" --documents mean=64k
says '^simsearch: --documents: expected a mean from 1 to 32768 tokens'
run 2 "${long[@]}" --documents men=2
run 6 run --gpus 1 --model tiny --layout tp1 --documents mean=8
says '^simsearch: --documents: run has no attention mask between documents'

# --- missing options and files ------------------------------------------------------------------

run 2 --model tiny
says '^simsearch: --gpus: is missing; for example: simsearch --gpus'
run 2 --gpus 8
says '^simsearch: --model: is missing'
run 2 simulate "${tiny[@]}"
says 'layout'
run 2 explain "${tiny[@]}"

# --- bad values (tests/cli/test_option_values.c has more) ---------------------------------------

run 2 "${tiny[@]}" --budget 10
says '--budget.*zo, rl and random'
run 0 "${tiny[@]}" --budget 10 --seed 3 --method zo
shows 'not proved the best'
run 2 "${tiny[@]}" --json=yes
says 'takes no value'
run 2 "${tiny[@]}" --cluster dgx-h100 --gpu a100
says 'dgx-h100 has'
run 2 --gpus 100 --model 175b
says 'whole nodes of 8 GPUs, like 96 or 104'
run 2 simulate "${tiny[@]}" --layout "tp2 dtype=bf16" --precision fp16
says 'dtype'
printf -v long '%0100000d' 7
run 2 --gpus "$long" --model tiny
run 2 --gpus 2 --model "$long"
run 2 --gpus 2 --model $'ti\033[31mny'
! grep -q $'\033' err || fail "an escape reached the terminal"

# --- invalid files ------------------------------------------------------------------------------

run 4 --gpus 2 --model ./absent.json
says '^simsearch: ./absent.json: '
run 4 --gpus 2 --model "$fixtures/misspelt.json"
says 'misspelt.json:6: hiden: .*"hidden"'
echo '{ "format": 1,' >broken.json
run 4 simulate broken.json
says '^simsearch: broken.json:[0-9]+'
echo '{ "format": 1, "layout": "tp2", "modl": "tiny" }' >broken.json
run 4 simulate broken.json --gpus 2
says 'broken.json:1: modl: .*"model"'
echo '{ "format": 1, "layout": "tpx dp1", "model": "tiny" }' >broken.json
run 4 simulate broken.json --gpus 2
says 'broken.json:1: layout'
echo '{ "format": 1, "layout": "tp2 pp1 dp1 mb1", "model": "tinyy" }' >broken.json
run 4 simulate broken.json
says 'broken.json:1: model'
echo '{ "format": 2, "layout": "tp2 pp1 dp1 mb1", "model": "tiny" }' >broken.json
run 4 simulate broken.json
says 'format'
echo '[]' >broken.json
run 4 simulate broken.json
run 4 simulate /dev/null
run 4 simulate "$work"

# --- search -------------------------------------------------------------------------------------

run 0 "${tiny[@]}"
for part in '^assumed: cluster dgx-h100' 'profile fitted here' 'BEST PLAN' 'step time' 'MFU' 'memory' \
    'where the .* go' 'Simulated event by event, they take' 'why #1 and not #2' 'what if' '^next  simsearch' 'proved the best'; do
    shows "$part"
done
run 0 simulate --gpus 8 --model tiny --cluster dgx-b300 --batch 8 --layout 'tp2 dtype=fp8-mx'
shows 'NOT measured'
shows 'dense fp8'
run 3 simulate --gpus 8 --model tiny --layout 'dtype=fp8-mx'
run 0 "${tiny[@]}" --quiet --top 1
hides 'assumed|what if|next'
LC_ALL=C run 0 "${tiny[@]}"
! LC_ALL=C grep -q '[^ -~]' out || fail "the output in the C locale has non-ASCII letters"

# The last lines of an answer are about the whole run. They are omitted if the number of tokens is not
# known.
run 0 simulate --gpus 1024 --model 175b --layout 'tp8 pp8 mb1 sp zero1' --quiet
shows '^  whole run   300 B tokens in [0-9.]+ days .90 % interval [0-9.]+ to [0-9.]+. for '
shows '^  goodput     9[0-9.]+ % of the time . checkpoints'
[[ $(tail -n 1 out) = "  checkpoint  2.22 TiB every "*"blocking: training stops for"*"asynchronous"*"in memory of peers"* ]] ||
    fail "expected checkpoints in the last line"
run 0 simulate --gpus 1024 --model 175b --layout 'tp8 pp8 mb1 sp zero1'
shows '^ +each host writes checkpoints at 2 GB/s, an assumption, as dgx-h100 states no rate$'
run 0 simulate --gpus 40 --model bloom --cluster jean-zay-a100-80g --layout 'tp4 pp10 mb1'
! grep 'go to storage at' out || fail "storage rates are called assumed, but the cluster states them"
run 0 simulate --gpus 1 --model tiny --layout 'mb1'
! grep 'whole run' out || fail "expected no line about the whole run, whose tokens are unknown"

# Idle time of uneven stages is shown.
run 0 simulate --gpus 4 --model gpt3-6.7b --layout 'pp4 mb1 stages=1,1,1,29'
shows '^  idle +stages? .* 9[67] %, stage 3 0 % of the step; the busiest stage has 3[.][5-7] times'

keys() {
    local key there
    there=$(grep -oE '^ *"[a-z0-9_]+": ' out | tr -d ' :\n')
    for key in "$@"; do [[ $there = *"\"$key\""* ]] || fail "stdout has no key $key"; done
}
prediction_keys=(layout fits step_s step_s_low step_s_high tokens_per_s tokens_per_s_per_gpu mfu hfu
    peak_memory_bytes memory_by_stage weights_bytes gradients_bytes optimizer_bytes
    activations_bytes workspace_bytes total_bytes time compute_s recompute_s tensor_comm_s
    context_comm_s expert_comm_s pipeline_comm_s bubble_s data_comm_s optimizer_s other_s
    days_to_train dollars run days days_low days_high goodput checkpoint_interval_s interruptions
    goodput_by plan)
search=(--gpus 64 --model llama2-7b --seq 2048 --batch 512 --tokens 1Ttok --price "2.5 $/h")
run 0 "${search[@]}" --json --jobs 1
keys version model cluster stack gpus method space_name best top space candidates evaluated bounded \
    infeasible infeasible_by proved_optimal lower_bound_s gap event_step_s elapsed_s assumptions \
    "${prediction_keys[@]}"
shows '^  "model": "llama2-7b",$'
shows '^  "elapsed_s": [0-9.e-]+,$'
[ "$(grep -c '"elapsed_s"' out)" = 1 ] || fail "expected elapsed_s once"
[ "$(grep -c '"plan": ' out)" = 1 ] || fail "expected a plan only in best"
num_top() { sed -n '/^  "top": /,/^  "space": /p' out | grep -c '"fits": '; }
[ "$(num_top)" = 5 ] || fail "expected five plans in top"
grep -v elapsed_s out >one
run 0 "${search[@]}" --json --jobs 8
grep -v elapsed_s out | cmp -s - one || fail "the answer differs with eight jobs"
run 0 "${search[@]}" --json --jobs 3 --top 2
[ "$(num_top)" = 2 ] || fail "expected two plans in top"
run 0 search "${search[@]}" --gbs 1.05Mtok --json --quiet
shows '"batch": 512'
run 0 --gpus 8 --model 175b --max-memory "80 GiB" --gbs 3.2Mtok --fix tp8 --objective memory --json \
    --gpu h200 --price "0 $/h" --model llama2-7b
shows '"cluster": "dgx-h200"'

# The answer must satisfy: the parts of the time sum to the step; dollars = price x GPUs x hours; days of
# steps = goodput x days of the run; candidates = evaluated + bounded + infeasible.
awk -F '[:,] *' '
    function once(name) { if ($1 ~ "\"" name "\"" && !(name in value)) value[name] = $2 }
    { n = split("step_s days_to_train dollars days goodput candidates evaluated bounded infeasible", names, " ")
      for (i = 1; i <= n; i++) once(names[i]) }
    /"time": / && !timed { timed = 1; inside = 1; next }
    inside && /}/ { inside = 0 }
    inside { parts += $2 }
    function near(a, b) { return a - b <= 1e-9 * b && b - a <= 1e-9 * b }
    END {
        if (!near(parts, value["step_s"])) print "the parts of time do not add up to the step"
        if (!near(value["dollars"], 2.5 * 64 * 24 * value["days_to_train"])) print "dollars are not price x GPUs x hours"
        if (!near(value["goodput"] * value["days"], value["days_to_train"])) print "goodput is not days of steps over days"
        if (value["candidates"] != value["evaluated"] + value["bounded"] + value["infeasible"]) print "candidates do not add up"
    }' one >sums
[ ! -s sums ] || fail "$(cat sums)"
awk -F '[:,] *' '
    /"weights_bytes"/ { sum = 0 }
    /"(weights|gradients|optimizer|activations|workspace)_bytes"/ { sum += $2 }
    /"total_bytes"/ && sum != $2 { print "five parts of memory add up to " sum ", not " $2 }' one >sums
[ ! -s sums ] || fail "$(head -1 sums)"

run 0 "${tiny[@]}" --compare "tp2"
shows 'compared  tp2 pp1 dp1 mb1'
shows 'rank [0-9]+ of [0-9]+'
run 0 "${tiny[@]}" --compare "tp2" --json
keys compared rank of lost_share valid
best=$(sed -n '/"best": {/,/^  }/s/^    "layout": "\(.*\)",$/\1/p' out | head -n 1)
run 0 "${tiny[@]}" --compare "$best"
shows 'it is #1$'
run 0 "${tiny[@]}" --compare "tp3" --json
shows '"valid": false'

# --- fronts, deadlines, comparisons, risk -------------------------------------------------------

run 0 --gpus 16 --model gpt3-2.7b --fix dp4 --pareto
shows '^ *GPUs +step s +MFU +GiB +margin +days +\$  layout'
shows '^ +16 .* [0-9.]+ [kM]  tp'
shows '^ +16 .* tp'
run 0 --gpus 16 --model gpt3-2.7b --fix dp4 --pareto --json --jobs 1
keys pareto pareto_size counts gpus margin_bytes space elapsed_s assumptions "${prediction_keys[@]:0:27}"
grep -v elapsed_s out >one
run 0 --gpus 16 --model gpt3-2.7b --fix dp4 --pareto --json --jobs 3
grep -v elapsed_s out | cmp -s - one || fail "the front differs with three jobs"
num_on_front() { grep -c '^      "gpus": ' out; }
shown=$(num_on_front)
run 0 --gpus 16 --model gpt3-2.7b --fix dp4 --pareto --json --verbose
[ "$(num_on_front)" -gt "$shown" ] || fail "expected more plans with --verbose"
shows "^  \"pareto_size\": $(num_on_front),\$"
run 3 --gpus 8 --model 175b --pareto
says 'no plan fits on any of the 4 numbers of GPUs up to 8'
run 2 "${tiny[@]}" --pareto -o plan.json
says '^simsearch: --output: '
run 2 "${tiny[@]}" --pareto --deadline 3d
run 0 --gpus 64 --model gpt3-2.7b --deadline 30d
shows '^DEADLINE met with [0-9]+ GPUs, the smallest number found .at most 64 allowed.: 300 B tokens take [0-9.]+ days of the 30 days allowed'
run 0 --gpus 64 --model gpt3-2.7b --deadline 30d --json
shows '^  "deadline_s": 2592000.0,$'
shows '^  "deadline_met": true,$'
shows '^  "most_gpus": 64,$'
awk -F '[:,] *' '$1 ~ /^  "gpus"/ { gpus = $2 } /^ +"days":/ && !days { days = $2 }
    END { exit !(gpus < 64 && days <= 30) }' out || fail "expected fewer GPUs in time"
run 3 --gpus 64 --model gpt3-2.7b --deadline 1d
says '^simsearch: --deadline: no plan on up to 64 GPUs takes 1 days or less; the fastest, on 64, takes'
shows 'DEADLINE NOT MET'
shows 'BEST PLAN'
run 2 --gpus 8 --model gpt3-2.7b --deadline 30d --objective memory
run 2 --gpus 8 --model "$fixtures/slow.json" --deadline 30d
says 'tokens'

run 0 --gpus 8 --largest gpt3
shows '^LARGEST gpt3 that fits 8 GPUs: gpt3-13b, .* parameters; gpt3-175b does not fit$'
shows 'BEST PLAN'
run 0 --gpus 8 --largest gpt3 --json
keys largest of model layers params next_larger
shows '^  "model": "gpt3-13b",$'
run 124 --gpus 1024 --model 175b --largest layers --time-limit 2ms
run 3 --gpus 1 --largest bloom
says 'no plan fits'
run 2 --gpus 8 --largest gpt --model gpt3-13b
says '^simsearch: --model: '
run 2 --gpus 8 --largest layers
run 2 --gpus 8 --largest llam
says 'did you mean "llama"\?'
run 2 --gpus 8 --largest gpt3 --pareto
run 0 --gpus 1 --model gpt3-1.3b --largest layers -o deep.json
shows '^LARGEST of this shape that fits 1 GPU: gpt3-1.3b-[0-9]+-layers, '
layers=$(grep -oE 'gpt3-1.3b-[0-9]+-layers' out | head -1 | cut -d - -f 3)
grep -q "\"layers\": $layers," deep.json || fail "the plan file has other layers"
run 0 simulate deep.json --json
shows '"fits": true'
robust=(--gpus 2 --model gpt3-1.3b --fix dp2 --robust 0.2) region=("${robust[@]}")
asks_large || region=(--gpus 2 --model tiny --fix dp2)
run 0 "${robust[@]}"
shows 'robust +200 random draws'
shows '#1 +best in +[0-9]+ % of draws, within 1 % of the best in'
shows 'makes another plan the best'
run 0 "${robust[@]}" --json --jobs 1
keys robustness spread draws seed rivals choice most_often safest classes close_share flip_factor
[ "$(num_top)" = 5 ] || fail "expected five plans in top, whatever the number of rivals"
grep -v elapsed_s out >one
run 0 "${robust[@]}" --json --jobs 3
grep -v elapsed_s out | cmp -s - one || fail "the draws differ with three jobs"
run 0 "${robust[@]}" --json --seed 2
grep -v elapsed_s out | cmp -s - one && fail "another seed gives the same draws"
run 0 "${robust[@]}" --robust 0 --json
shows '"best_share": 1.0'
shows '"largest_regret": 0.0'
run 2 "${robust[@]}" --objective memory
run 2 "${robust[@]}" --pareto
run 3 --gpus 1 --model 175b --certificate none.json
grep -q '"answer": null' none.json || fail "the certificate names an answer where nothing fits"
grep -q '"floor_bytes": ' none.json || fail "no lower bound of memory rules out a family"
run 0 --gpus 2 --model tiny --fix dp2 --robust region
shows '#1 is proved within 0.1 % of the best in at least '
shows 'gemm_half_k .* to .*: in the quarters of this range #1 is the best in .* of the region'
run 0 "${region[@]}" --robust region --json --jobs 1
keys region probability deviations within best_share beaten_share undecided_share parts plans decides constants \
    best_by_quarter beaten_by_quarter standard_error
grep -v elapsed_s out >one
run 0 "${region[@]}" --robust region --json --jobs 3
grep -v elapsed_s out | cmp -s - one || fail "the region differs with three jobs"
run 2 "${robust[@]}" --robust region --objective cost
run 2 "${robust[@]}" --robust region --pareto
run 2 "${robust[@]}" --robust region --stack nemo

# --- nothing fits -------------------------------------------------------------------------------

run 3 --gpus 8 --model 175b
says '^simsearch: no plan fits: the smallest needs [0-9.]+ GiB per GPU'
shows 'memory  '
shows 'lacks [0-9.]+ GiB on stage'
shows 'smallest number of GPUs with a plan that fits: [0-9]+'
run 3 --gpus 8 --model 175b --json
shows '"best": null'
keys infeasible_by fewest_gpus nearest lacks_bytes
if asks_large; then
    run 3 --gpus 1000 --model 175b --run
    says 'each of these changes would give a plan: batch 1535, batch 1540, [0-9]+ GPUs, 1008 GPUs'
    shows 'feasible with one change'
    shows '^    batch 1540 .*DP 10 .* a step$'
    run 3 --gpus 1000 --model 175b --run --json
    keys relaxations change from to best
    shows '"change": "batch"'
    shows '"to": 1540'
fi
run 3 --gpus 8 --model gpt3-13b --max-memory "1 GiB"
says 'GiB per GPU, but only 1\.0 GiB are available(;| at P|$)'
says 'each of these changes would give a plan: [0-9.]+ GiB of memory'
run 3 --gpus 2 --model tiny --fix "tp3 zero1" --json
shows '"without": "tp3"'
shows '"left": "zero1"'
run 3 --gpus 2 --model tiny --fix tp3
says 'each of these changes would give a plan: without --fix tp3'
run 3 simulate --gpus 7 --model tiny --layout tp8
run 3 simulate --gpus 2 --model tiny --layout "dp2 mb3"
says 'batch|mb'
run 3 simulate --gpus 64 --model tiny --layout tp64
run 3 --gpus 2 --model tiny --cluster rtx-2080ti-4 --precision bf16
says 'bf16'

# With --json, a command that ends with exit code 3 still prints a document.
owes_json() {
    run 3 "$@" --json --jobs 1
    shows '"feasible": false'
    shows '"sentence": "'
    shows '"nearest": \{'
}
lean=(--gpus 2 --model tiny --max-memory 8MiB --tokens 1Gtok)
extras=("" --pareto "--deadline 1d" "--objective time-to-accuracy" --run)
[ "${VARIANT-}" = asan ] || extras+=("--objective cost" "--objective memory" --uneven --recompute-mixes
    "--method dp" "--method milp" "--method zo" "--robust 0.1" "--compare tp2" "--fix tp2"
    "--method exhaustive")
for extra in "${extras[@]}"; do
    # shellcheck disable=SC2086 # words
    owes_json "${lean[@]}" $extra
done
owes_json --gpus 64 --model gpt3-2.7b --deadline 1d
owes_json --gpus 1 --largest bloom
for command in simulate explain run; do
    ran=("$command")
    "$SIMSEARCH" "$command" --gpus 2 --model tiny --layout tp8 --json >out 2>err
    code=$?
    [ "$code" = 3 ] || fail "expected exit 3"
    shows '"feasible": false'
    shows '"rule": "dp"'
done

# --- uneven stages ------------------------------------------------------------------------------

uneven=(--gpus 32 --model llama3-8b --fix pp4 --uneven --space even)
run 0 "${uneven[@]}"
shows 'stages=9,8,8,7'
shows 'proved the best of the searched space: .*; with 1f1b also uneven chunks'
shows 'without uneven stages  tp1 pp4 dp8'
shows '#1 takes [0-9.]* % less time; simulated event by event, this plan takes [0-9.]* s and #1 [0-9.]* % less time'
run 0 "${uneven[@]}" --recompute-mixes --method dp --json
shows '"even_best": {'
shows '"event_gain": 0.1'
run 2 "${uneven[@]}" --certificate proof.json
says '^simsearch: --uneven: cannot be combined with --certificate'
run 2 "${uneven[@]}" --method exhaustive
says '^simsearch: --uneven: expected the method .*; the method exhaustive searches only plans with equal stages'
run 2 "${uneven[@]}" --objective memory
says '^simsearch: --objective: cannot be memory with uneven stages'

# --- named spaces -------------------------------------------------------------------------------

# 126 layers are not a multiple of 16 stages, so the embedding and the loss are counted as one layer
# each.
spaces=(--gpus 16384 --model llama3-405b --seq 8192 --gbs 2048)
if asks_large; then
    run 0 "${spaces[@]}"
    shows 'layout .* pp32 .* stages=0,1x126,0$'
    shows 'memory .* of 79.1 GiB .* P\(out of memory\) '
    shows 'tight on memory, [0-9.]+ % less time than #1: tp4 cp4 pp16 .* P\(out of memory\) [0-9]+ %$'
    shows '; only plans with P\(out of memory\) <= 5 %$'
    shows "proved the best of the searched space: layers divided as Megatron can; "
    shows 'this space leaves out uneven layers per stage .--uneven., recompute per stage'
fi
# A compared layout whose risk of running out of memory exceeds the accepted risk is ranked, but the
# space is not widened to contain it.
run 0 --gpus 256 --model llama3-70b --fix "tp4 pp4" --compare "tp4 pp4 dp16 mb1 vpp20 sp zero1"
shows 'rank 1 of .* tight: P\(out of memory\) [0-9]+ %, '
hides 'its degrees were added'
run 0 simulate --gpus 64 --model "$here/fixtures/models/v3-14.json" \
    --layout 'pp4 vpp2 ep16 mb1 zero1 stages=Ett|(tt|)*6mL overlap=grad,param,p2p,ep'
shows '^  tight  '
run 0 --gpus 256 --model llama3-70b --oom-risk 0.5 --fix pp4 --json
shows '^  "oom_risk": 0.5,$'
shows '"p_oom": 0\.[0-9]+,'
shows '"memory_low_bytes": '
hides '"tight": '
run 0 "${spaces[@]}" --space even --json
shows '"space_name": "even chunks; '
shows '"leaves_out": "divisions of layers that are not even .--space megatron., '
run 0 --gpus 8 --model tiny --space all --json
shows '"leaves_out": ""'
run 2 --gpus 8 --model tiny --space most
says "^simsearch: --space: "

# A compared layout that is faster than the best plan is added to the space, which is searched
# again.
mine="tp8 cp2 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0"
if asks_large; then
    run 0 "${spaces[@]}" --space even --compare "$mine"
    shows '^    was faster than every plan of the requested space'
    shows "also the settings of tp8 cp2 pp16 "
    run 0 "${spaces[@]}" --fix "tp8 pp16" --compare "$mine" --json
    shows '"left_out": false'
fi

# The gain of a wider space is estimated from plans near the best one.
run 0 --gpus 32 --model llama3-8b --fix 'pp4 vpp1' --space even
shows '^  with --uneven  a plan with #1.s degrees takes [0-9.]+ % less time, .*: tp1 pp4 dp8 mb1 zero1 stages=9,8,8,7$'
# Other numbers of chunks are tried too, unless they are fixed.
run 0 --gpus 32 --model llama3-8b --fix pp8 --space even
shows '^  with --uneven  a plan with #1.s degrees takes [0-9.]+ % less time, .*: tp1 pp8 dp4 mb1 vpp[0-9]+ zero1 stages='
run 0 --gpus 32 --model llama3-8b --fix "pp8 vpp1" --space even
hides 'a plan with #1.s degrees .* vpp'

# --- searches that end early --------------------------------------------------------------------

run 124 --gpus 720720 --model "$fixtures/slow.json" --placement --time-limit 100ms
shows 'TIME LIMIT'
run 124 --gpus 65536 --model 175b --objective time-to-accuracy --time-limit 1ms
shows '^TIME LIMIT: no plan had been found by then$'
slow=(--gpus 720720 --model "$fixtures/slow.json" --method exhaustive)
run 124 "${slow[@]}" --time-limit 50ms
shows 'TIME LIMIT'
run 124 "${slow[@]}" --time-limit 50ms --json
shows '"proved_optimal": false'
ran=("${slow[@]}" "(Ctrl-C)")
"$SIMSEARCH" "${slow[@]}" >out 2>err &
# Waits until the fork runs the program and catches SIGINT (bit 1). Before that, bash catches SIGINT.
for _ in {1..500}; do
    ! grep -q '^bash$' "/proc/$!/comm" && grep -qE '^SigCgt:.*[2367abef]$' "/proc/$!/status" && break
    sleep 0.02
done
kill -INT $!
wait $!
code=$?
[ "$code" = 130 ] || fail "expected exit 130"
shows 'INTERRUPTED'

# --- numbers that are too large -----------------------------------------------------------------

run 3 --gpus 1000000 --model "$fixtures/huge.json" --json
run 0 simulate --gpus 1000000 --model "$fixtures/huge.json" --batch 125000 --layout "tp8 zero1" --json
shows '"fits": false'
hides 'NaN|inf'
run 0 --gpus 1000000 --model 175b --batch 1000000 --json --top 1

# --- plan files ---------------------------------------------------------------------------------

run 0 "${search[@]}" -o plan.json --json
sed -n '/"best": {/,/^  "top"/p' out | grep -m1 '"step_s"' >first
run 0 simulate plan.json --json
keys "${prediction_keys[@]}" format stack profile params active_params
grep -m1 '"step_s"' out | sed 's/^ *//' >second
sed 's/^ *//' first | cmp -s - second || fail "a plan file gives another step time than its search"
run 0 simulate plan.json --json -o again.json
cmp -s plan.json again.json || fail "a plan file changes when it is written again"
run 0 simulate plan.json --stack torch-ddp --price "1 $/h"
run 0 simulate plan.json --seq 1024 --batch 1024
run 0 explain plan.json
run 0 explain plan.json again.json
run 2 explain plan.json again.json --compare tp8
run 3 simulate plan.json --gpus 8
echo '{ "format": 1, "layout": "tp2 pp1 dp1 mb1", "model": "tiny", "cluster": "dgx-a100-80g" }' >small.json
run 0 simulate small.json
shows 'dgx-a100-80g'
run 0 simulate "${tp8[@]}"
shows 'PLAN  '
shows 'next  simsearch'
run 0 simulate --gpus 8 --model 175b --layout tp8
shows 'DOES NOT FIT: lacks'
hides 'fits with'
large=(--gpus 16384 --model llama3-405b --seq 8192 --gbs 2048)
owned="tp8 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0"
run 0 simulate "${large[@]}" --layout "$owned"
shows 'fits with   cp2 dp64: .*recompute=selective:mlp: '
run 0 simulate "${large[@]}" --layout "$owned" --json
keys remedies change
# The printed command that exports a layout has only options that `export` accepts.
run 0 export --gpus 8 --model llama3-8b --layout "tp2 pp1 dp4 mb1 sp zero1" --to megatron
run 0 simulate --gpus 8 --model llama3-8b --layout "tp2 mb1 sp zero1" --documents mean=2k --reserve "1 GiB"
shows '^      simsearch export --gpus 8 --model llama3-8b --layout "tp2 pp1 dp4 mb1 sp zero1" --to megatron -o plan$'
run 0 simulate --gpus 8 --model llama3-8b --layout "tp2 mb1 sp" --train lora:16
hides 'simsearch export'
run 0 simulate --gpus 8 --model tiny --layout "pp2 dp4" --schedule-text
shows '^0: .*F0\.0'
run 2 simulate --gpus 8 --model tiny --layout "pp2 dp4" --schedule-text --json
run 0 simulate --gpus 4 --model tiny --cluster dgx1-v100 --layout tp4
shows 'fp16, as v100'

# --- a step, event by event ---------------------------------------------------------------------

pp2=(--gpus 8 --model tiny --layout "pp2 dp4")
run 0 simulate "${pp2[@]}" --json
hides event_step_s
run 0 simulate "${pp2[@]}" --trace trace.json --json
keys event_step_s step_s
cp trace.json first.json
for key in traceEvents displayTimeUnit otherData event_step_s; do
    grep -q "\"$key\": *" trace.json || fail "the trace has no $key"
done
grep -q '"name":"B1.0","cat":"compute"' trace.json || fail "the trace has no backward"
LC_ALL=C run 0 simulate "${pp2[@]}" --gantt --trace trace.json
cmp -s trace.json first.json || fail "the same step gives another trace"
shows '^  events  '
shows '^  stage 0   0[0-9a-jo=.]*$'
shows '^  stage 1   \.[0-9a-jo=.]*$'
! LC_ALL=C grep -q '[^ -~]' out || fail "the output in the C locale has non-ASCII letters"
run 0 simulate "${pp2[@]}" --gantt --quiet
shows '^  stage 1 '
hides 'next'
run 2 simulate "${pp2[@]}" --gantt --json
says '^simsearch: --gantt: is text'
run 2 simulate "${pp2[@]}" --schedule-text --trace trace.json
says '^simsearch: --schedule-text: .*--trace'
run 2 simulate --gpus 8 --model tiny --layout "pp2 dp4" --batch 4000000 --gantt
says '^simsearch: --gantt: expected at most'
run 0 simulate "${pp2[@]}" --draws 9 --seed 3
shows '^  jitter .* in the median .* of 9 random steps .--seed 3.$'
run 0 simulate "${pp2[@]}" --draws 9 --seed 3 --json
cp out first.json
run 0 simulate "${pp2[@]}" --draws 9 --seed 3 --json
cmp -s out first.json || fail "the same seed gives other draws"
shows '"p90_s"'
run 2 simulate "${pp2[@]}" --seed 3
says '^simsearch: --seed: needs --draws'
run 2 simulate "${pp2[@]}" --draws 9 --schedule-text
says '^simsearch: --schedule-text: .*--draws'
run 2 simulate "${pp2[@]}" --trace
run 2 simulate "${pp2[@]}" --trace ""
run 1 simulate "${pp2[@]}" --trace absent/trace.json
silent
run 4 simulate "${pp2[@]}" --trace /dev/null
silent
run 2 "${tiny[@]}" --gantt
says 'simulate'

# If a file cannot be written, no part of it remains, and the old file is kept.
mkdir locked
echo old >locked/plan.json
chmod a-w locked
if [ ! -w locked ]; then
    run 1 "${tiny[@]}" -o locked/plan.json
    silent
    [ "$(cat locked/plan.json)" = old ] || fail "the old file changed"
    [ "$(find locked | wc -l)" = 2 ] || fail "a file was left in the folder"
fi
run 1 "${tiny[@]}" -o absent/plan.json
silent
run 4 "${tiny[@]}" -o /dev/null
[ -z "$(find . -name '*.tmp')" ] || fail "a temporary file was left"

# --- milp ---------------------------------------------------------------------------------------

run 0 --gpus 32 --model llama3-8b --batch 256 --fix "pp8 vpp1" --method milp --stage-types 2
shows 'at most 2 types of stages'
run 2 --gpus 32 --model llama3-8b --batch 256 --stage-types 2
says 'stage-types.*milp'
run 2 --gpus 32 --model llama3-8b --batch 256 --method milp --host-memory 1TiB
says 'offload=optimizer'
run 3 --gpus 32 --model llama3-8b --batch 256 --method milp --fix "pp8 vpp1 offload=optimizer" \
    --host-memory 1GiB
says 'host-memory.*the smallest plan with even stages needs'

# --- standard input and output as files ---------------------------------------------------------

run 0 "${tiny[@]}" -o tiny.json --quiet
run 0 "${tiny[@]}" -qj1 -o -
cmp -s out tiny.json || fail "-o - prints another plan"
run 0 simulate tiny.json --json
cp out first.json
# shellcheck disable=SC2002 # a pipe is what is tested
cat tiny.json | "$SIMSEARCH" simulate - --json | cmp -s - first.json || fail "a plan read from - gives another result"
sed -n '/"cluster": {/,/^  },/p' tiny.json | sed '1s/.*/{/; $s/.*/}/' >cluster.json
run 0 simulate --cluster - --model tiny --gpus 2 --layout dp2 <cluster.json
run 4 simulate - --gpus 1 <<<'{ "format": 1, "layout": "tpx dp1", "model": "tiny" }'
says '^simsearch: standard input:1: layout'
run 2 "${tiny[@]}" -o - --json
says '^simsearch: --json: prints on standard output, and --output - does too'
run 2 "${tiny[@]}" -jx
says '^simsearch: --jobs: expected an integer'
run 2 "${tiny[@]}" -qz
says '^simsearch: -z: there is no such option'

# --- explain ------------------------------------------------------------------------------------

run 0 explain "${tp8[@]}"
shows 'textbook +detailed +difference'
shows 'FLOPs/\(N F U\) = '
shows 'causal half, with the head .as here.'
run 0 explain "${tp8[@]}" --compare "tp4 pp16 mb1 sp zero1"
shows 'first +second +difference'

# The terms of a comparison sum to the difference of the two step times, which the function `of` finds
# in the document.
adds_up() {
    awk -F '[:,] *' '
        /"step_s": [0-9]/ && steps < 2 { step[++steps] = $2 }
        /"difference"/ { inside = 1 }
        inside && /"seconds"/ { sum += $2; terms++ }
        END {
            wrong = sum - (step[2] - step[1])
            exit !(terms >= 8 && wrong <= 1e-12 * step[1] && -wrong <= 1e-12 * step[1])
        }' out || fail "the differences do not add up"
}
run 0 explain "${tp8[@]}" --json
keys textbook detailed difference term seconds lecture topic formula filled unit gap
adds_up
run 0 explain "${tp8[@]}" --compare "tp4 pp16 mb1 sp zero1" --json
keys first second difference
adds_up
# The last term is the difference of the two other_s, not the remainder of the other terms.
awk -F '[:,] *' '
    /"other_s"/ && parts < 2 { other[++parts] = $2 }
    /"term": "other"/ { found = 1 }
    found && /"seconds"/ && term == "" { term = $2 }
    END {
        wrong = term - (other[2] - other[1])
        exit !(parts == 2 && found && wrong <= 1e-9 && -wrong <= 1e-9)
    }' out || fail "the last term is not the difference of other_s"

run 0 explain --from-run "params=175B tokens=300B gpus=1024 gpu=a100 days=34"
shows 'U, full recompute +44\.75 %'
shows 'U, no recompute +33\.56 %'
run 0 explain --from-run "params=175B tokens=300B gpus=1024 gpu=a100 u=0.45" --json
keys from_run days_8tp days_6tp lecture
run 2 explain --from-run "params=175B tokens=300B gpus=8 gpu=a100 days=1" --gpus 8
says 'found --gpus'
run 2 explain --from-run "params=175B"
says 'lacks tokens='
run 2 explain --from-run "params=175B" "${tp8[@]}"
says 'expected no other option, found --layout'

# Each formula of the folder sim/textbook is called by explain or by another formula. So its name occurs
# in cli/, or twice in sim/textbook.
textbook=$here/../sim/textbook
{
    grep -oh '\<textbook_[a-z0-9_]*(' "$here"/../cli/*.c "$here"/../cli/*/*.c | sed p
    grep -h -oE '\<textbook_[a-z0-9_]*\(' "$textbook"/*.c
} | sort | uniq -d >called
grep -oh '\<textbook_[a-z0-9_]*(' "$textbook"/*.h | sort -u | comm -23 - called >uncalled
[ ! -s uncalled ] || fail "$(head -1 uncalled) is never called"

run 0 explain "${tp8[@]}" --cluster dgx-a100-80g --partition
shows 'qkv +column +all-gather'
shows 'megatron-sp .*the best'
shows 'ulysses .*does not fit'
run 0 explain "${tp8[@]}" --partition --json
keys operators sharding before after seconds comm_s units bytes budget_bytes alternatives saves_s
run 2 explain "${tiny[@]}" --partition --layout "tp1 mb1"
says 'tensor ranks'
run 2 explain "${tp8[@]}" --partition --compare "tp4 pp16 mb1"
run 2 explain --gpus 2 --model "$fixtures/two-kinds.json" --layout tp2 --partition
says 'two-kinds has 2 kinds'
run 0 explain --gpus 2 --model "$fixtures/two-kinds.json" --layout tp2
shows '8 layers of 2 kinds'
shows 'its blocks are of 2 kinds'
run 3 explain --gpus 64 --model 175b --layout "tp8 pp1 mb1" --partition
says 'no partition'

# --- partition ----------------------------------------------------------------------------------

cat >chain.json <<'END'
{ "ranks": 8, "tokens": 4096, "width": 1024, "reduce_scatter": false, "operators": [
  { "name": "W1", "allowed": ["column", "row"] },
  { "name": "W2", "allowed": ["column", "row"] },
  { "name": "W3", "allowed": ["column", "row"] } ] }
END
run 0 partition chain.json
shows '^  W3 +column +4 .*all-reduce forwards, all-reduce backwards$'
shows 'the cheapest of 8 partitions, by dynamic and by integer programming: 4 units'
shows '^ +4 .* column row column$'
shows '^ +5 .* column column row$'
shows '^ +8 .* row row row$'
run 0 partition chain.json --json
shows '"units_by_milp": 4'
shows '"cheapest": \[$'
run 2 partition
says 'expected a file with a chain'

# --- design -------------------------------------------------------------------------------------

run 0 design --flops 5.76e23
shows '^  chinchilla-1 +67\.9 B +1\.41 T '
shows '^  chinchilla-2 +63\.7 B +1\.51 T '
shows '^  chinchilla-3 +40\.3 B +2\.38 T '
shows '^  corrected +72\.2 B +1\.33 T '
hides 'BEST PLAN'
run 0 design --flops gpt3-175b --json
shows '"flops": 3\.1[34][0-9]*e23'
shows '"layout": null'
run 0 design --gpus 8 --days 1 -o design.json --json
keys params active_params tokens loss loss_low loss_high law law_source flops unique_tokens epochs \
    inference_tokens batch model aspect_source searches laws layout days dollars gpus cluster best \
    proved_optimal assumptions
# The designed run, with its failures and checkpoints, takes as many days as the budget has. A search for
# the designed model finds the same layout.
shows '^  "days": (1\.0|0\.99999|1\.00000)'
shows '"goodput": 0\.9'
layout=$(grep -oE '"layout": "[^"]*"' out | sort -u)
run 0 simulate design.json --json
[ "$layout" = "$(grep -oE '"layout": "[^"]*"' out | sort -u)" ] || fail "the layout is not $layout"
run 0 design --gpus 8 --cost 500 --price 2.5 --tokens 5B --inference 10B
shows 'passes over the 5\.00 B different tokens'
shows 'of them to serve 10\.0 B tokens'
run 2 design --gpus 8
says '^simsearch: --days: is missing'
run 2 design --days 3
says '^simsearch: --gpus: is missing'
run 2 design --gpus 8 --days 3 --flops 1e20
says '^simsearch: --flops: cannot be combined with --days'
run 2 design --flops gophr
says 'did you mean "gopher"\?'
run 2 design --gpus 8 --cost 5 --price 0
says '^simsearch: --price: is missing'
run 3 design --flops 1e12 --inference 2T
says 'takes all of the budget'
run 3 design --gpus 8 --days 1 --max-memory 2GiB --json
says "no size in the style of llama2-7b"
keys feasible reasons

# --- list ---------------------------------------------------------------------------------------

run 0 list
for kind in models texts gpus clusters profiles stacks axes schedules collectives methods laws workloads targets costs rules refusals layout; do
    grep -q "^$kind " out || fail "does not list $kind"
    "$SIMSEARCH" list "$kind" >text || fail "cannot list $kind"
    [ -s text ] || fail "lists no $kind"
    "$SIMSEARCH" list "$kind" --json >json || fail "cannot list $kind as JSON"
    [ "$(grep -oE '^    "(name|aliases|summary|source)": ' json | sort -u | wc -l)" = 4 ] ||
        fail "list $kind --json lacks keys"
done
run 0 list backends --json
shows '"name": "host"'
run 0 list models --json
keys params active_params layers hidden heads seq
shows '"params": [0-9]+,$'
run 0 list models -v
shows 'source: '
run 0 list decentralised
# shellcheck disable=SC2016
shows '^\| resnet-50 \| 256 \| `ring` \| exchange of a batch \| 2[0-9.]+ ms \| 278 ms \|'
# shellcheck disable=SC2016
shows '^\| `topk:0.01` \| - \| - \| 0.01 \|'
run 0 list decentralised --json
shows '"published_s": 0\.278'
run 0 list fields
shows memory_bandwidth
run 0 list reference
shows '^# Reference'

# The manual and the completion know every option.
grep -oE '^\| `--[a-z-]+' out | tr -d '|` ' | sort -u >options
[ "$(wc -l <options)" -gt 20 ] || fail "lists too few options"
grep -oE 'Fl Fl [a-z-]+( |$)' "$here/../docs/simsearch.1" | sed 's/Fl Fl /--/; s/ $//' | sort -u |
    comm -23 options - >lacking
[ ! -s lacking ] || fail "the manual lacks $(head -1 lacking)"
for kind in models texts gpus clusters profiles stacks rules refusals fields reference; do
    grep -q "$kind" "$here/../docs/simsearch.1" || fail "the manual lacks list $kind"
done

# --- stdout that can't be written ---------------------------------------------------------------

if [ -w /dev/full ]; then
    for command in "list models" "list models --json" "${tiny[*]} --json"; do
        ran=("$command" ">/dev/full")
        # shellcheck disable=SC2086 # words
        "$SIMSEARCH" $command >/dev/full 2>err
        code=$?
        [ "$code" = 1 ] || fail "expected exit 1"
        says 'standard output: cannot be written: No space left on device'
    done
fi
ran=(list ">&-")
"$SIMSEARCH" list models >&- 2>err
code=$?
[ "$code" = 1 ] || fail "expected exit 1"
# When the reader closes the pipe, the program ends silently, with the exit status of SIGPIPE.
ran=(list "| true")
{ "$SIMSEARCH" list reference; echo $? >status; } 2>err | true
code=$(cat status)
[ "$code" = 141 ] || [ "$code" = 0 ] || fail "expected exit 0 or 141"
[ ! -s err ] || fail "expected nothing on stderr"

[ "$failures" = 0 ] || { echo "$failures failed"; exit 1; }
