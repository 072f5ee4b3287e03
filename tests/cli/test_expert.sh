#!/usr/bin/env bash
# The best plans of searches must be no slower than published or measured layouts.
# tests/cli/requests.txt has more models whose number of layers is not a multiple of the number of
# stages.
# shellcheck source=tests/program.sh
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/program.sh"
[ "${VARIANT-}" = asan ] && exit 0 # these searches of large spaces run the same code as those of test_cli.sh

# Prints the first number with this key from the JSON in the file out.
number() { grep -m 1 -Eo "\"$1\": [0-9.e+-]+" "$work/out" | cut -d' ' -f2; }
holds() { awk "BEGIN { exit !($1) }" || fail "expected $1"; }

# best ARGS...: searches, and sets shell variables to numbers of the answer
best() {
    run 0 "$@" --top 1 --json
    sed -i '1,/^  "best": {$/d' "$work/out"
    step=$(number step_s) mfu=$(number mfu) risk=$(number p_oom)
}

# --- Llama 3 405B on its cluster's number of GPUs -----------------------------------------------

# The layouts are from section 3.3.2 and table 4 of arXiv 2407.21783, and from NVIDIA's recipe of
# 2025, with which the runs of source dgxc_h100 were measured.
paper="tp8 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0"
llama=(--gpus 16384 --model llama3-405b --seq 8192 --gbs 2048)
layouts=("$paper" "tp8 cp2 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0"
    "tp8 cp2 pp8 mb1 vpp8 sp zero1 stages=1,2x62,1")
for stack in megatron-core llama3; do
    best "${llama[@]}" --stack $stack
    holds "$risk <= 0.05"
    answer=$step
    for layout in "${layouts[@]}"; do
        run 0 simulate "${llama[@]}" --stack $stack --layout "$layout" --json
        holds "$answer <= 1.005 * $(number step_s)"
    done
done

# The published layout fits if ZeRO frees gradients (zero2, zero3), and is ranked.
for zero in zero1 zero2; do
    run 0 simulate "${llama[@]}" --stack llama3 --layout "${paper/zero1/$zero}" --json
    shows '"fits": true'
done
# A plan's rank is counted over all plans of the space, so the space is limited to the layout's tp and
# pp.
run 0 "${llama[@]}" --stack llama3 --compare "$paper" --fix "tp8 pp16" --top 1
shows '^    rank [0-9]+ of [0-9 ]+ plans that fit, '

# --- DeepSeek-V3 on its 2,048 H800 --------------------------------------------------------------

# The layout of arXiv 2412.19437, sections 3.2 and 3.3: 16 stages with DualPipe, expert parallelism over
# 64 ranks, ZeRO-1; norms and up-projections are recomputed. It fits in memory with the software that ran
# it. It is ranked among the plans with its degrees, and the differences of the step times are printed by
# part.
paper="pp16 ep64 mb1 schedule=dualpipe zero1 overlap=ep recompute=selective:mla_up_proj+layernorm stages=Et*3|(t*4|)*14ttmL"
deepseek=(--gpus 2048 --model deepseek-v3 --cluster h800-8 --precision fp8-block --optimizer adam-bf16)
run 0 simulate "${deepseek[@]}" --stack hai-llm --layout "$paper" --json
shows '"fits": true'
run 0 simulate "${deepseek[@]}" --layout "$paper" --json
shows '"fits": false'
run 0 "${deepseek[@]}" --stack hai-llm --compare "$paper" --fix "tp1 cp1 pp16 ep64" --top 1
shows '^    rank [0-9]+ of [0-9 ]+ plans that fit, '
for part in compute "EP exposed" "PP bubble" memory; do
    shows "^    .*$part [−+][0-9.]+.* GiB$"
done

# --- selective recompute of a stack -------------------------------------------------------------

titan=(--gpus 32 --model llama3-8b --seq 8192 --gbs 64 --stack torchtitan --fix "cp1 pp1 mb2" --oom-risk 0.5 --top 8 --json)
run 0 "${titan[@]}"
shows 'recompute=op-selective"'
grep '"layout"' "$work/out" >"$work/bnb"
run 0 "${titan[@]}" --method exhaustive
grep '"layout"' "$work/out" | diff - "$work/bnb" >/dev/null || fail "exhaustive finds other plans than bnb"

# --- numbers of layers that are not a multiple of the stages ------------------------------------

for layers in 61 92 94; do
    cat >"$work/$layers.json" <<END
{ "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 12288, "intermediate_size": 32768,
  "num_hidden_layers": $layers, "num_attention_heads": 96, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000, "tie_word_embeddings": false,
  "hidden_act": "silu", "torch_dtype": "bfloat16" }
END
    best --model "$work/$layers.json" --gpus 1024 --gbs 1024 --seq 8192
    holds "$risk <= 0.05 && $mfu > 0.45"
done
exit $failed
