#!/usr/bin/env python3
"""Lets megatron-core's own configuration judge exported plans.

usage: SIMSEARCH=build/release/simsearch python3 tests/interchange/referee.py [N] [SEED]

Needs PyPI's megatron-core (0.16.1 was used). Draws N layouts, exports each with
`simsearch export --to megatron --json`, and builds a TransformerConfig from the arguments. An export
that the configuration rejects is a disagreement. Prints the counts; exits 1 on a disagreement.
"""
import dataclasses
import json
import os
import random
import subprocess
import sys

from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

# Arguments whose member of the configuration has another name (arguments.py,
# core_transformer_config_from_args).
RENAMED = {
    "num_experts": "num_moe_experts",
    "decoder_first_pipeline_num_layers": "num_layers_in_first_pipeline_stage",
    "decoder_last_pipeline_num_layers": "num_layers_in_last_pipeline_stage",
    "norm_epsilon": "layernorm_epsilon",
    "swiglu": "gated_linear_unit",
}
MODELS = ["175b", "llama3-8b", "llama3-70b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b", "gpt2-xl"]


def arguments_as_dict(words):
    found, key = {}, None
    for word in words:
        if word.startswith("--"):
            key = word[2:].replace("-", "_")
            found[key] = []
        else:
            found[key].append(word)
    return found


def value_of(kind, words):
    if not words:
        return True
    kind = str(kind)
    if "List[str]" in kind or "list[str]" in kind:
        return words
    for convert in (int, float):
        try:
            return convert(words[0])
        except ValueError:
            pass
    return words[0]


def build(words):
    given = arguments_as_dict(words)
    config = MLATransformerConfig if "multi_latent_attention" in given else TransformerConfig
    fields = {field.name: field.type for field in dataclasses.fields(config)}
    chosen = {}
    for key, values in given.items():
        name = RENAMED.get(key, key)
        if name in fields:
            chosen[name] = value_of(fields[name], values)
    if "disable_bias_linear" in given:
        chosen["add_bias_linear"] = False
    if "moe_layer_freq" in chosen and isinstance(chosen["moe_layer_freq"], str):
        chosen["moe_layer_freq"] = eval(chosen["moe_layer_freq"], {"__builtins__": {}})  # simsearch wrote it
    stages = int(given.get("pipeline_model_parallel_size", ["1"])[0])
    if "num_layers_per_virtual_pipeline_stage" in given:
        per = int(given["num_layers_per_virtual_pipeline_stage"][0])
        chosen["virtual_pipeline_model_parallel_size"] = chosen["num_layers"] // stages // per
    chosen["pipeline_dtype"] = "torch.bfloat16" if stages > 1 else None
    return config(**chosen)


def draw(rng):
    power = lambda most: 2 ** rng.randrange(most)
    words = [f"tp{power(4)}", f"pp{rng.choice([1, 1, 2, 4, 7, 8])}", f"mb{power(3)}"]
    words += rng.choices([[], ["sp"], ["sp"]])[0]
    words += rng.choice([[], [f"vpp{rng.choice([2, 3, 4])}"], [f"cp{power(3)}"]])
    words += rng.choice([[], ["zero1"], ["zero1"]])
    words += rng.choice([[], ["recompute=selective"], ["recompute=full"], ["recompute=full:2"],
                         ["recompute=selective:moe_act+layernorm"], ["recompute=block:1"],
                         ["recompute=selective:mla_up_proj"]])
    words += rng.choice([[], [f"ep{power(4)}"]])
    words += rng.choice([[]] * 4 + [["dtype=fp8"], ["dtype=fp8-cs"], ["offload=activations"]])
    return " ".join(words)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    accepted = refused = 0
    disagreements = []
    while accepted < count:
        model, layout = rng.choice(MODELS), draw(rng)
        command = [os.environ["SIMSEARCH"], "export", "--model", model, "--gpus", "512", "--batch", "2048",
                   "--layout", layout, "--to", "megatron", "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            refused += 1
            continue
        accepted += 1
        try:
            build(json.loads(answer.stdout)["arguments"])
        except Exception as fault:  # whatever the configuration raises is its verdict
            disagreements.append((model, layout, f"{type(fault).__name__}: {fault}"))
    print(f"{accepted} plans exported, {refused} refused here, {len(disagreements)} rejected by megatron-core")
    for disagreement in disagreements[:20]:
        print(*disagreement, sep=" | ")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
