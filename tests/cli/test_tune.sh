#!/usr/bin/env bash
# not under asan: many runs of code that other tests cover.
# Tests `tune` with training commands that contain one mistake each. It must find the mistake and
# its fix. Further cases: a log that is given with the command, changes that can be pasted, missing
# and malformed files.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"
cd "$work" || exit 1

run 0 export --model llama2-7b --gpus 16 --gbs 128 --layout "tp4 pp2 mb1 sp zero1" --to megatron -o base
run 0 export --model mixtral-8x7b --gpus 16 --gbs 128 --layout "tp2 ep4 pp2 mb1 sp zero1" --to megatron -o moe
mistakes=0 base=base first=$((RANDOM % 4))

# There are 51 seeded mistakes; `make test` tests a random quarter of them, `make campaign` all.
# mistake RULE FIX DROPPED ADDED...: removes flag DROPPED with its values ("": none) from the base
# arguments, appends ADDED, and checks that RULE is broken and FIX is suggested.
mistake() {
    local rule=$1 fix=$2 dropped=$3
    shift 3
    mistakes=$((mistakes + 1))
    [ -n "${CAMPAIGN:-}" ] || [ $((mistakes % 4)) = $first ] || return
    awk -v drop="$dropped" '/^--/ { skip = index(drop " ", $0 " ") > 0 } !skip' "$base/args.txt" >mine.txt
    [ $# = 0 ] || printf '%s\n' "$@" >>mine.txt
    run 0 tune mine.txt --gpus 16 --json
    found=$(awk -v rule="\"rule\": \"$rule\"" '
        /^  "broken"/ { inside = 1 } /^  "unknown"/ { inside = 0 }
        inside && index($0, rule) { mine = 1 } inside && mine && /"fix"/ { print; exit }' "$work/out")
    [[ $found =~ $fix ]] || fail "$rule: expected the fix /$fix/, found: $found"
}

mistake P1 'degrees that divide' "" --tensor-model-parallel-size 3
mistake P2 'global-batch-size' "" --global-batch-size 129
mistake P3 'keep one' "" --num-layers-per-virtual-pipeline-stage 2 --num-virtual-stages-per-pipeline-rank 2
mistake P4 'pipeline-model-parallel' "" --num-layers 31
mistake P5 'num-layers-per-virtual' "" --num-layers-per-virtual-pipeline-stage 3
mistake P6 'virtual stages' "" --pipeline-model-parallel-size 1 --num-layers-per-virtual-pipeline-stage 2
mistake P9 'use-distributed-optimizer' --overlap-grad-reduce --overlap-param-gather
mistake P1 'choose degrees' --micro-batch-size --overlap-grad-reduce
mistake P10 'kv-channels' --kv-channels --num-attention-heads 30
mistake P11 'divisors of the heads' "" --num-attention-heads 30 --tensor-model-parallel-size 4
mistake P12 'divisors of the groups' "" --num-attention-heads 48 --kv-channels 128 --group-query-attention --num-query-groups 6
mistake P13 'context-parallel' "" --context-parallel-size 2 --seq-length 4094 --max-position-embeddings 4094
mistake P14 'max-position' "" --seq-length 8192
mistake P15 'recompute-method' "" --recompute-granularity full
mistake P16 'drop --sequence-parallel' "" --tensor-model-parallel-size 1
mistake P18 'cpu-offloading' "" --cpu-offloading --cpu-offloading-num-layers 2
mistake P20 'ckpt-format' "" --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads --ckpt-format torch
mistake P21 'drop one' "" --train-iters 10 --train-samples 100
mistake P22 'distributed-optimizer' "--use-distributed-optimizer --overlap-param-gather" --use-precision-aware-optimizer --exp-avg-dtype bf16
mistake R5 'rampup' "" --rampup-batch-size 3 3 1000
mistake sp-off 'sequence-parallel' --sequence-parallel
mistake tp-across-nodes 'tensor-model-parallel-size 8' "" --tensor-model-parallel-size 16 --pipeline-model-parallel-size 1
mistake recompute 'drop --recompute-granularity' "" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
mistake recompute-full 'selective' "" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
mistake optimizer-whole 'use-distributed-optimizer' "--use-distributed-optimizer --overlap-param-gather"
mistake overlap-off 'overlap-grad-reduce' "--overlap-grad-reduce --overlap-param-gather" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 1
mistake context-split 'context-parallel' "" --context-parallel-size 2
mistake pipeline-starved 'fewer pipeline stages' "" --pipeline-model-parallel-size 4 --global-batch-size 2
mistake batch-odd 'batch of 12[68]' "" --pipeline-model-parallel-size 4 --global-batch-size 127
mistake memory 'changes' "" --pipeline-model-parallel-size 1 --tensor-model-parallel-size 1 --micro-batch-size 8
mistake precision 'bf16' --bf16
mistake attention-unfused 'attention-backend' "" --attention-backend unfused
mistake offload 'drop --optimizer-cpu-offload' "" --optimizer-cpu-offload
mistake P6 'drop --no-overlap-p2p-communication' "" --num-layers-per-virtual-pipeline-stage 4 --no-overlap-p2p-communication
mistake P7 'pipeline-model-parallel-layout' "" --decoder-first-pipeline-num-layers 40
mistake P8 'count the t' "" --pipeline-model-parallel-layout 'Et*15|t*16L'
mistake P8 'count the t' "" --pipeline-model-parallel-layout 'Et*32|L|E'
mistake P8 'count the t' "" --pipeline-model-parallel-layout 'Et*16|xt*16L'
mistake P9 'add --use-distributed-optimizer' --use-distributed-optimizer
mistake P15 'or drop both' "" --recompute-granularity selective --recompute-method uniform --recompute-num-layers 1
mistake P16 'sequence-parallel' --sequence-parallel --tp-comm-overlap
mistake P20 'ckpt-format' "" --use-torch-fsdp2
mistake P21 'drop one of the two' "" --fp16
mistake P21 'save-interval' "" --save checkpoints
mistake R1 'among the divisors' "" --num-virtual-stages-per-pipeline-rank 3
mistake R2 'multiple of pp' --global-batch-size --global-batch-size 10 --num-layers-per-virtual-pipeline-stage 4
base=moe
mistake P17 'divisors of --num-experts' --expert-model-parallel-size --expert-model-parallel-size 3
mistake R3 'so that the product divides' --expert-model-parallel-size --expert-model-parallel-size 16
mistake R4 'add --sequence-parallel' --sequence-parallel
mistake E3 'drop --overlap-moe-expert-parallel-comm' "" --overlap-moe-expert-parallel-comm
mistake E4 'add --moe-expert-capacity-factor' "" --moe-pad-expert-input-to-capacity
base=base

# `tune` finds all settings that cost time but are not part of a plan, and environment variables
# that a script sets.
grep -v -x -e --overlap-param-gather base/args.txt >slow.txt
printf '%s\n' --no-gradient-accumulation-fusion --no-masked-softmax-fusion --no-bias-swiglu-fusion \
    --no-bias-gelu-fusion --no-bias-dropout-fusion --no-persist-layer-norm --no-rope-fusion \
    --deterministic-mode --empty-unused-memory-level 2 --timing-log-level 2 >>slow.txt
{
    printf 'export %s\n' CUDA_DEVICE_MAX_CONNECTIONS=8 CUDA_LAUNCH_BLOCKING=1 NCCL_P2P_DISABLE=1 \
        TORCH_DISTRIBUTED_DEBUG=DETAIL NCCL_IB_DISABLE=1
    echo "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py $(paste -sd' ' slow.txt)"
} >slow.sh
run 0 tune slow.sh --json
python3 - "$work/out" <<'PY' || fail "slow settings are not all found"
import json, sys
rows = json.load(open(sys.argv[1]))["broken"]
found = {row["where"].lstrip("$"): row["fix"] for row in rows}
wanted = {"--no-" + name: "drop it" for name in (
    "gradient-accumulation-fusion", "masked-softmax-fusion", "bias-swiglu-fusion", "bias-gelu-fusion",
    "bias-dropout-fusion", "persist-layer-norm", "rope-fusion")}
wanted.update({"--deterministic-mode": "drop it", "--empty-unused-memory-level": "drop it",
               "--timing-log-level": "set it to 0", "CUDA_LAUNCH_BLOCKING": "unset it",
               "TORCH_DISTRIBUTED_DEBUG": "unset it", "NCCL_P2P_DISABLE": "unset it",
               "NCCL_IB_DISABLE": "unset it"})
missed = {key: fix for key, fix in wanted.items() if found.get(key) != fix}
assert not missed, (missed, found)
assert any(row["rule"] == "P19" for row in rows), rows
PY
[ "$mistakes" -ge 47 ] || fail "only $mistakes mistakes were tested"

# A correct command breaks no rule. The proposed changes, read again, are plans that break no rule
# either.
run 0 tune base/args.txt --gpus 16 --json
shows '"broken": \[\]'
for key in plan broken prediction measured_s explained changes flags step_s gain p_gain p_oom best; do
    shows "\"$key\":"
done
shows '"measured_s": null'
shows '"propose": \[\]'
python3 - "$work/out" <<'PY' || fail "the best change has no probability"
import json, sys
answer = json.load(open(sys.argv[1]))
assert answer["best"]["p_best"] > 1 / (len(answer["changes"]) + 2), answer["best"]
PY

# The first change, pasted into the file, gives the proposed plan.
cp base/args.txt mine.txt
run 0 tune mine.txt --gpus 16 --json
python3 - "$work/out" mine.txt <<'PY' >pasted.txt || fail "no change to paste"
import json, sys
change = json.load(open(sys.argv[1]))["changes"][0]
drop = set(change["drop"]) | {flag.split()[0] for flag in change["flags"]}
skip = False
for line in open(sys.argv[2]).read().split("\n"):
    skip = line in drop if line.startswith("--") else skip
    if line and not skip:
        print(line)
for flag in change["flags"]:
    print("\n".join(flag.split()))
open("promised", "w").write('"layout": "%s"' % change["layout"])
PY
run 0 import pasted.txt --from megatron --gpus 16 --json
grep -qF "$(cat promised)" "$work/out" || fail "the pasted change gives another plan"
shows '"broken": \[\]'

# `tune` proposes trial runs on fewer GPUs. With their measured times its choice becomes more
# certain.
run 0 export --model llama2-13b --gpus 16 --gbs 256 --layout "tp2 pp2 mb1 sp zero1" --to megatron -o unsure
run 0 tune unsure/args.txt --gpus 16 --propose -o runs.json --json
for key in propose plan layout gpus batch command gain_bits p_best best; do
    shows "\"$key\":"
done
chance() { awk '/^  "best"/ { mine = 1 } mine && /"p_best"/ { sub(/.*: /, ""); print int(100 * $0) }' "$work/out"; }
before=$(chance)
python3 - "$work/out" <<'PY' || fail "runs.json differs from the proposed runs"
import json, sys
asked = json.load(open(sys.argv[1]))["propose"]
mine = json.load(open("runs.json"))
for run, of in zip(mine["runs"], asked, strict=True):
    assert run["layout"] == of["layout"] == of["plan"]["layout"] and run["step_s"] is None
    run["step_s"] = of["step_s"]
assert any(of["gpus"] < 16 for of in asked)
json.dump(mine, open("done.json", "w"))
PY
run 0 tune unsure/args.txt done.json --gpus 16 --json
[ "$(chance)" -gt "$before" ] || fail "the runs did not raise P(best): $before %, then $(chance) %"
run 0 tune unsure/args.txt done.json --gpus 16 --propose -o more.json
shows 'best +change [1-9], P\(within 2 % of the fastest\)'
[ "$(grep -c '"layout"' more.json)" -ge "$(grep -c '"layout"' done.json)" ] || fail "more.json lacks earlier runs"
run 2 tune base/args.txt --gpus 16 -o runs.json
says 'needs --propose'
results() {
    printf '{ "format": 1, "runs": [ { %s } ] }\n' "$1" >faulty.json
    run 4 tune base/args.txt faulty.json --gpus 16
    says "$2"
}
results '"layout": "tp3 mb1"' 'faulty.json:1: runs\[0\].layout: '
results '"gpus": 8' 'layout: expected the layout that ran'
results '"layout": "tp2 mb1", "gpus": 7.5' 'gpus: expected a whole number'
results '"layout": "tp2 mb1", "step_s": -1' 'step_s: expected a number above 0'
results '"layout": "tp2 mb1", "step": 1' 'step_s'
results '"layout": "tp2 mb1", "log": "missing.log"' 'missing.log'

# Logs of training: the median of several logs, a log of another model, a missing log, a log that is
# too short.
for i in 1 2 3 4 5; do
    echo " [2026-01-01 00:00:00] iteration $i/ 100 | consumed samples: 64 | elapsed time per iteration (ms): 8300.0 | throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: 1.0E-04 | global batch size: 128 | lm loss: 9.0 | loss scale: 1.0 |"
done >train.log
run 0 tune base/args.txt train.log --gpus 16 --json
shows '"measured_s": 8.3'
shows '"term": "not_explained_s"'
run 0 tune base/args.txt train.log --gpus 16
shows 'measured  8.3 s, of which the prediction explains'
# A trace of PyTorch's profiler in place of a log: a step of 8 s, of which a matrix product takes 6 s.
printf '{ "schemaVersion": 1, "deviceProperties": [], "traceEvents": [ { "ph": "X", "cat": "%s", "name": "%s", "ts": 0, "dur": %s }, { "ph": "X", "cat": "%s", "name": "%s", "ts": 0, "dur": %s } ] }\n' \
    user_annotation 'ProfilerStep#2' 8e6 kernel made_up_gemm 6e6 >trace.json
run 0 tune base/args.txt trace.json --gpus 16
shows 'measured  8 s, of which the prediction explains'
shows 'P\(less time\) (> 99.9|[0-9.]+) %, P\(out of memory\) (< 0.1|[0-9.]+) %$'
shows 'trace +1 steps: computing 6 s \(predicted [0-9.]+\), only collectives 0 s, idle 2 s'
run 0 learn base/plan.json trace.json
shows 'learned from 1 of 1 runs'
head -c 300 train.log >short.log
run 4 tune base/args.txt short.log --gpus 16
says 'short.log'
sed 's/^/  num_layers ............... 80\n/' train.log >other.log
run 4 tune base/args.txt other.log --gpus 16
run 4 tune base/args.txt missing.log --gpus 16
run 4 tune missing.txt --gpus 16
run 4 tune /dev/null --gpus 16
run 2 tune
run 2 tune base/args.txt --gpus 16 --from megatrom
says 'did you mean "megatron"'
for value in 0 -1 99999999999 x; do
    sed "/^--tensor-model-parallel-size/{n;s/.*/$value/}" base/args.txt >hostile.txt
    "$SIMSEARCH" tune hostile.txt --gpus 16 --json >"$work/out" 2>"$work/err"
    [ $? -le 4 ] || fail "tp $value: ended by a signal"
done
# Unknown flags are listed.
printf '%s\n' --no-such-flag 3 >>base/args.txt
run 0 tune base/args.txt --gpus 16
shows 'unknown +--no-such-flag 3'
exit $failed
