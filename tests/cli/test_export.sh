#!/usr/bin/env bash
# Exports as people use them: files, launch scripts that run, refusals, and search --for.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "export: $*"
    failures=$((failures + 1))
}
run() { # EXIT ARGUMENTS...
    local expected=$1
    shift
    "$SIMSEARCH" "$@" >out 2>errors
    local code=$?
    [ $code = "$expected" ] || fail "exit $code, not $expected: simsearch $*: $(head -n 3 errors)"
}

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
            fail "$target: shellcheck"
        PATH=$work/bin:$PATH SLURM_JOB_NODELIST=node0 bash "$target-$launch/$script" --mine "a b" >argv ||
            fail "$target: $script does not run"
        # The program gets its arguments, each whole and in order, then the user's own.
        grep -A 100000 '\.py$' argv | tail -n +2 | head -n -2 | cmp -s - "$target-$launch/args.txt" ||
            fail "$target: the program gets other arguments than args.txt"
        [ "$(tail -n 1 argv)" = "a b" ] || fail "$target: the user's arguments are lost"
        run 0 import "$target-$launch/args.txt" --from "$target" --model llama3-8b --json
        grep -q '"gpus": 16' out || fail "$target: import finds other GPUs"
        layout=$(sed -n 's/^  "layout": "\(.*\)",$/\1/p' out)
        grep -q "\"layout\": \"$layout\"" "$target.json" || fail "$target: $layout came back"
    done
done

# Refusals name the rule and the nearest plan.
run 3 export --model 175b --gpus 1024 --layout "tp8 pp16 mb1 sp schedule=gpipe" --to megatron --json
grep -q '"rule": "X1"' out || fail "X1 is not named"
grep -q '"nearest": "tp8 pp16 dp8 mb1 sp"' out || fail "no nearest plan"
[ -s errors ] || fail "a refusal says nothing"
run 3 export --model llama2-7b --gpus 8 --layout "tp2 mb1 zero1" --to torchtitan
run 2 export plan.json --to megatrom
grep -q 'did you mean "megatron"' errors || fail "no nearest target"
run 2 export plan.json
run 2 import plan.json
run 4 import plan.json --from megatron --gpus 8
run 2 search --gpus 8 --model llama2-7b --for megatron --pareto

[ $failures = 0 ]
