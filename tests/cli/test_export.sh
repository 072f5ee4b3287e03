#!/usr/bin/env bash
# Tests exported files, running of launch scripts, plans that are refused, and search --for.
set -u
config=$(cd "$(dirname "$0")/../fixtures/huggingface" && pwd)/llama-3.1-8b.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "export: $*"
    failures=$((failures + 1))
}
run() { # run EXIT ARGUMENTS...
    local expected=$1
    shift
    "$SIMSEARCH" "$@" >out 2>errors
    local code=$?
    [ $code = "$expected" ] || fail "exit $code, not $expected: simsearch $*: $(head -n 3 errors)"
}

parses() { # parses FILE
    local read=
    case $1 in
        *.json) read='json, sys; json.load(open(sys.argv[1]))' ;;
        *.yaml) read='yaml, sys; assert isinstance(yaml.safe_load(open(sys.argv[1])), dict)' ;;
        *.toml) read='tomllib, sys; tomllib.load(open(sys.argv[1], "rb"))' ;;
        *.py) read='ast, sys; ast.parse(open(sys.argv[1]).read())' ;;
        *) return 0 ;;
    esac
    [ "$real_python" = false ] || "$real_python" -c "
try:
    import ${read%%,*}
except ImportError:
    raise SystemExit
import $read" "$1"
}
real_python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || echo false)

# Stand-ins for Slurm and Python: they print the arguments that they get.
mkdir bin
# shellcheck disable=SC2016
printf '#!/bin/sh\nfor a; do printf "%%s\\n" "$a"; done\n' >bin/python3
printf '#!/bin/sh\necho node0\n' >bin/scontrol
# shellcheck disable=SC2016
printf '#!/bin/bash\nwhile [ "${1#-}" != "$1" ]; do shift; done\nSLURM_NODEID=0 "$@"\n' >bin/srun
chmod +x bin/*

run 0 search --gpus 16 --model llama3-8b --for megatron -o plan.json
grep -q 'simsearch export plan.json --to megatron' out || fail "search does not offer export"
for target in megatron bridge torchtitan deepspeed; do
    run 0 search --gpus 16 --model llama3-8b --for "$target" -o "$target.json" -q
    for launch in slurm torchrun; do
        script=train.sh
        [ $launch = slurm ] && script=train.sbatch
        run 0 export "$target.json" --to "$target" "--$launch" -o "$target-$launch" --json
        for file in args.txt env.sh plan.json $script; do
            [ -s "$target-$launch/$file" ] || [ "$file" = env.sh ] || fail "$target: no $file"
        done
        bash -n "$target-$launch/$script" || fail "$target: bash cannot read $script"
        ! command -v shellcheck >/dev/null || shellcheck "$target-$launch/$script" ||
            fail "$target: shellcheck finds faults in $script"
        PATH=$work/bin:$PATH SLURM_JOB_NODELIST=node0 bash "$target-$launch/$script" --mine "a b" >argv ||
            fail "$target: $script does not run"
        # Other parsers, if installed, can read the files too.
        for file in "$target-$launch"/*; do
            parses "$file" || fail "$target: $file cannot be parsed"
        done
        # The program receives its arguments unsplit and in order, followed by the user's arguments.
        grep -A 100000 '\.py$' argv | tail -n +2 | head -n -2 | cmp -s - "$target-$launch/args.txt" ||
            fail "$target: the program gets other arguments than args.txt"
        [ "$(tail -n 1 argv)" = "a b" ] || fail "$target: the user's arguments are lost"
        run 0 import "$target-$launch/args.txt" --from "$target" --model llama3-8b --json
        grep -q '"gpus": 16' out || fail "$target: import finds another number of GPUs"
        layout=$(sed -n 's/^  "layout": "\(.*\)",$/\1/p' out)
        grep -q "\"layout\": \"$layout\"" "$target.json" || fail "$target: $layout is not imported again"
    done
done

# A document of search is accepted for its best plan; a document without a plan is rejected.
run 0 search --gpus 16 --model llama3-8b --for megatron --json
mv out found.json
run 0 export found.json --to megatron --json
mv out from-found
# The overlap of experts' messages is exported as the plan says, and imported unchanged.
for overlap in shared ep; do
    run 0 simulate --gpus 64 --model deepseek-v2-lite --layout "tp1 ep8 pp1 mb1 zero1 overlap=grad,param,$overlap" -o rows.json
    run 0 export rows.json --to megatron -o rows
    flag=--moe-shared-expert-overlap
    [ $overlap = ep ] && flag=--overlap-moe-expert-parallel-comm
    grep -qx -- $flag rows/args.txt || fail "overlap=$overlap is not exported"
    run 0 import rows/args.txt --from megatron --gpus 64 --json
    grep -q "overlap=[a-z,0-9]*$overlap" out || fail "overlap=$overlap is not imported"
done
run 0 export plan.json --to megatron --json
cmp -s out from-found || fail "the document of search --json is exported differently from its plan file"
run 3 search --gpus 1 --model 175b --json
mv out nothing.json
run 4 export nothing.json --to megatron
grep -q 'nothing.json' errors || fail "a document without a plan is not named"

# The answer for an imported job states that a learned factor was applied.
printf '{ "format": 2, "stacks": [ { "stack": "megatron-core", "time_ratio": 1.1, "ratio_error": 0.05, "shift": 0.1, "prior_error": 0.1, "prior_freedom": 5, "gpus": [ { "profile": "h100-80g-sxm", "time_ratio": 1.1, "ratio_error": 0.05, "shift": 0.1, "prior_error": 0, "prior_freedom": 5, "ratios": [ 1.1 ] } ] } ] }' >mine.json
run 0 import megatron-slurm/args.txt --from megatron --learned mine.json --json
grep -q 'mine.json' out || fail "import --learned does not state the learned factor"
run 0 export plan.json --to megatron --learned mine.json --json

# Rejections name the rule and the nearest plan.
# In this plan the modules for later tokens are in another chunk than the head.
apart="pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart"
run 0 export --gpus 64 --model glm-4.5-air --gbs 512 --layout "$apart" --to megatron -o apart
grep -q "Et\*16|t\*15|t\*15m|L" apart/args.txt || fail "the exported layout of mtp=apart is wrong"
run 0 import apart/args.txt --from megatron --gpus 64
shows 'stages=16,15,15,0 mtp=apart'

run 3 export --model 175b --gpus 1024 --layout "tp8 pp16 mb1 sp schedule=gpipe" --to megatron --json
grep -q '"rule": "X1"' out || fail "X1 is not named"
grep -q '"nearest": "tp8 pp16 dp8 mb1 sp"' out || fail "the nearest plan is not named"
[ -s errors ] || fail "a refusal prints no message"
run 3 export --model llama2-7b --gpus 8 --layout "tp2 mb1 zero1" --to torchtitan
run 3 export --model deepseek-v3.2 --gpus 256 --batch 256 --layout "tp1 ep8 mb1 zero3" --to torchtitan
grep -q "deepseek-v3.2 is not in torchtitan's registry" errors || fail "the message does not say that torchtitan lacks the model"
# No framework supports recompute of a fraction of each chunk's layers; the nearest plan recomputes at
# least as much.
share="pp2 mb1 recompute=block-share:0.3"
run 3 export --model llama3-8b --gpus 8 --layout "$share" --to megatron --json
grep -q '"nearest": "tp1 pp2 dp4 mb1 recompute=block:5"' out || fail "no nearest plan for a share of layers"
run 3 export --model llama3-8b --gpus 8 --layout "$share" --to torchtitan --json
grep -q '"nearest": "tp1 pp2 dp4 mb1 recompute=full' out || fail "no nearest plan for a share of layers"
# Megatron-LM's recompute_modules is one list for all ranks. The nearest plan recomputes on all stages
# the modules that any stage recomputes.
mixed="pp4 mb1 recompute=selective:mlp+core_attn,layernorm,none*2"
run 3 export --model llama3-8b --gpus 8 --layout "$mixed" --to megatron --json
grep -q "recompute-modules is one list for all ranks" errors out || fail "stages with different modules were not refused"
grep -q '"nearest": "tp1 pp4 dp2 mb1 recompute=selective:core_attn+mlp+layernorm"' out ||
    fail "no nearest plan for stages with different modules"
# In torchtitan, FSDP keeps parameters whole for a step or gathers them in each pass. The nearest plan to
# this one keeps them, which is zero2.
run 3 export --model llama3-8b --gpus 16 --layout "pp2 mb1 zero3" --to torchtitan --json
grep -q '"nearest": "tp1 pp2 dp8 mb1 zero2' out || fail "no nearest plan for parameters kept for a step"
# An export lacks keys of a config.json that change neither weights nor time; the answer and the
# script say so.
run 0 export --model "$config" --gpus 8 --layout "pp2 mb1 zero1" --to megatron -o from-config
grep -q '^missing .* such as rope_scaling' out || fail "the answer does not say that keys of the config are missing"
grep -q '^# Missing: .* such as rope_scaling' from-config/train.sh || fail "the script does not say that keys are missing"
run 0 export --model llama3-8b --gpus 8 --layout "pp2 mb1 zero1" --to megatron -o from-preset
! grep -q rope_scaling out || fail "a preset lacks no keys of a config"
run 2 export plan.json --to megatrom
grep -q 'did you mean "megatron"' errors || fail "the nearest target is not named"
run 2 export plan.json
run 2 import plan.json
run 4 import plan.json --from megatron --gpus 8
run 2 search --gpus 8 --model llama2-7b --for megatron --pareto

[ $failures = 0 ]
