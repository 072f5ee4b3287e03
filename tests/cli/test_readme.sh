#!/usr/bin/env bash
# Runs the README's three commands from a config.json to a training job, exactly as printed there.
# sbatch, srun, scontrol and python3 are stand-ins that print their arguments. If megatron-core is
# installed, it checks the arguments.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"
here=$(cd "$(dirname "$0")/.." && pwd)
real_python=${PYTHON:-$(command -v python3 || echo false)}
cd "$work" || exit 1
cp "$here/fixtures/huggingface/llama-3.1-8b.json" config.json

mkdir bin
ln -s "$SIMSEARCH" bin/simsearch
# shellcheck disable=SC2016
printf '#!/bin/sh\nfor a; do printf "%%s\\n" "$a"; done\n' >bin/python3
printf '#!/bin/sh\necho node0\n' >bin/scontrol
# shellcheck disable=SC2016
printf '#!/bin/bash\nwhile [ "${1#-}" != "$1" ]; do shift; done\nSLURM_NODEID=0 "$@"\n' >bin/srun
printf '#!/bin/bash\nexport SLURM_JOB_NODELIST=node0\nbash "$@"\n' >bin/sbatch
chmod +x bin/*
export PATH=$work/bin:$PATH

awk '/^## / { mine = /From config.json to a command line/ } mine && /^    / { sub(/^    /, ""); print }' \
    "$here/../README.md" >commands
[ "$(wc -l <commands)" = 3 ] || fail "README has $(wc -l <commands) commands, not three"
while read -r command; do
    last=("$command")
    bash -c "$command" >"$work/out" 2>"$work/err" </dev/null || fail "exit $?"
done <commands

# The training script received the exported arguments, followed by the user's.
grep -A 100000 'pretrain_gpt.py$' "$work/out" | tail -n +2 >argv
head -n "$(wc -l <plan/args.txt)" argv | cmp -s - plan/args.txt || fail "the program gets other arguments"
tail -n +"$(($(wc -l <plan/args.txt) + 1))" argv | tr '\n' ' ' | grep -q '^--data-path DATA --tokenizer-model TOKENIZER' ||
    fail "the user's arguments are lost"
grep -q 'path/to/Megatron-LM/pretrain_gpt.py' "$work/out" || fail "MEGATRON is not used"

if "$real_python" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("megatron") and u.find_spec("megatron.core")))' 2>/dev/null &&
    [ "${VARIANT-}" != asan ]; then
    "$real_python" "$here/interchange/referee.py" --arguments plan/args.txt >"$work/out" 2>&1 ||
        fail "megatron-core rejects the arguments: $(tail -n 3 "$work/out")"
fi
exit $failed
