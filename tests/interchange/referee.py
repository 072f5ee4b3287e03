#!/usr/bin/env python3
"""Checks exported plans with megatron-core's own configuration class.

usage: SIMSEARCH=build/release/simsearch python3 tests/interchange/referee.py [N] [SEED]
       SIMSEARCH=... python3 tests/interchange/referee.py --accepted [N] [SEED]
       SIMSEARCH=... python3 tests/interchange/referee.py --searched [N]
       python3 tests/interchange/referee.py --arguments plan/args.txt

Needs PyPI's megatron-core (0.16.1 was used). Draws N layouts, exports each with
`simsearch export --to megatron --json`, and builds a TransformerConfig from the arguments. An
export that the configuration rejects is a disagreement. Prints the numbers of agreements and
disagreements; exits 1 if there is a disagreement.

With --accepted it checks the other direction. It draws N random layouts of a dense model that the
configuration accepts; each must be exported, or refused for a reason in LISTED. With --searched it
checks the best plans of the first N requests of tests/cli/requests.txt that use Megatron-Core's
stack; these plans can have uneven stages. With --arguments it checks a file of arguments, one per line.
"""
import dataclasses
import json
import os
import random
import re
import subprocess
import sys

from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

# Arguments that have another name as a member of the configuration class (arguments.py,
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
        # safe, as simsearch wrote this text
        chosen["moe_layer_freq"] = eval(chosen["moe_layer_freq"], {"__builtins__": {}})
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


# Why simsearch refuses layouts that the configuration class accepts. Most are rules of Megatron's
# arguments.py or of its training loop, which TransformerConfig does not see.
LISTED = [
    r"dp: the number of GPUs, \d+, is not a multiple of",  # arguments.py: a multiple of the model-parallel size
    r"vpp.* needs pp of 2 or more",  # arguments.py: interleaving needs a pipeline
    r"(pp|vpp)\d*: .*(layers|chunks)",  # arguments.py: chunks have equally many layers
    r"vpp.*microbatches",  # schedules.py: interleaving needs full groups of microbatches
    r"(batch|dp\d*): .*batch",  # arguments.py: a multiple of micro-batch x dp
    r"sp: .*tp",  # with tp1, arguments.py switches sequence parallelism off
    r"recompute.*layers",  # the argument is more than a chunk's layers; Megatron lowers it
]


def dense_config(draw_of):
    """The configuration of 175b with a layout's words, made without simsearch."""
    given = {"num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96,
             "tensor_model_parallel_size": draw_of["tp"], "pipeline_model_parallel_size": draw_of["pp"],
             "context_parallel_size": draw_of["cp"], "sequence_parallel": draw_of["sp"],
             "pipeline_dtype": "torch.bfloat16"}
    if draw_of["vpp"] > 1:
        given["virtual_pipeline_model_parallel_size"] = draw_of["vpp"]
    if draw_of["recompute"] == "selective":
        given["recompute_granularity"] = "selective"
    elif draw_of["recompute"] != "none":
        method, _, number = draw_of["recompute"].partition(":")
        given.update(recompute_granularity="full", recompute_method="block" if method == "block" else "uniform",
                     recompute_num_layers=int(number or 1))
    if draw_of["offload"]:
        given.update(cpu_offloading=True, cpu_offloading_num_layers=95)
    return TransformerConfig(**given)


def judge_accepted(count, rng):
    """Prints how many layouts are exported, refused for each listed reason, and refused for another reason."""
    exported = 0
    listed = dict.fromkeys(LISTED, 0)
    others = []
    while exported + sum(listed.values()) + len(others) < count:
        drawn = {"tp": rng.choice([1, 2, 3, 4, 6, 8]), "pp": rng.choice([1, 2, 3, 4, 6, 8, 12, 16]),
                 "vpp": rng.choice([1, 1, 1, 2, 3, 5, 6]), "cp": rng.choice([1, 1, 1, 2, 4]),
                 "sp": rng.random() < 0.5, "offload": rng.random() < 0.1, "mb": rng.choice([1, 2, 4]),
                 "recompute": rng.choice(["none", "selective", "full", "full:2", "block:1", "block:7"])}
        try:
            dense_config(drawn)
        except Exception:  # Megatron refuses it
            continue
        layout = " ".join(f"{axis}{drawn[axis]}" for axis in ("tp", "pp", "vpp", "cp", "mb"))
        layout += f" recompute={drawn['recompute']}" + " sp" * drawn["sp"]
        layout += " offload=activations" * drawn["offload"]
        command = [os.environ["SIMSEARCH"], "export", "--model", "175b", "--gpus", "2304", "--batch", "4608",
                   "--layout", layout, "--to", "megatron", "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = answer.stderr.strip().split("\n")[0].removeprefix("simsearch: ")
        found = [pattern for pattern in LISTED if re.search(pattern, reason)]
        if answer.returncode == 0:
            exported += 1
        elif found:
            listed[found[0]] += 1
        else:
            others.append(f"{layout} | {reason}")
    print(f"of {count} layouts that megatron-core accepts, {exported} were exported, {sum(listed.values())} refused "
          f"for a listed reason and {len(others)} refused for another reason")
    for pattern, times in listed.items():
        print(f"{times:6} {pattern}")
    for other in others[:20]:
        print(other)
    return 1 if others or exported < count / 10 else 0


def requests():
    path = os.path.join(os.path.dirname(__file__), "..", "cli", "requests.txt")
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("--") and " = simsearch:" not in line:
                yield line.split(" = ")[0].split()


def judge_searched(most):
    """Exports the plans that searches found. A plan that megatron-core rejects is a disagreement. So is a plan that
    simsearch refuses to export, unless the reason is its model (rule X8)."""
    searches = plans = 0
    disagreements = []
    for words in list(requests())[:most]:
        answer = subprocess.run([os.environ["SIMSEARCH"], *words, "--top", "10", "--json"], capture_output=True,
                                text=True, check=False)
        found = json.loads(answer.stdout)
        if found["stack"] != "megatron-core":
            continue
        searches += 1
        case = dict(zip(words[::2], words[1::2]), **{"--gpus": str(found["gpus"])})
        case.pop("--documents", None)
        for top in found["top"]:
            command = [os.environ["SIMSEARCH"], "export", *[word for pair in case.items() for word in pair],
                       "--layout", top["layout"], "--to", "megatron", "--json"]
            exported = subprocess.run(command, capture_output=True, text=True, check=False)
            if "rule X8" in exported.stderr:  # the model has features that Megatron-LM's arguments cannot state
                continue
            plans += 1
            try:
                build(json.loads(exported.stdout)["arguments"])
            except Exception as fault:
                disagreements.append((*words, top["layout"], exported.stderr.strip() or repr(fault)))
    print(f"{plans} plans of {searches} searches checked, {len(disagreements)} refused by simsearch or rejected by "
          f"megatron-core")
    for disagreement in disagreements[:20]:
        print(*disagreement, sep=" | ")
    return 1 if disagreements else 0


def main():
    if sys.argv[1:2] == ["--arguments"]:
        with open(sys.argv[2], encoding="utf-8") as file:
            build(file.read().split("\n")[:-1])
        return 0
    if sys.argv[1:2] == ["--accepted"]:
        del sys.argv[1]
        numbers = [int(word) for word in sys.argv[1:]]
        return judge_accepted((numbers + [1000])[0], random.Random(numbers[1] if len(numbers) > 1 else 1))
    if sys.argv[1:2] == ["--searched"]:
        return judge_searched(int(sys.argv[2]) if len(sys.argv) > 2 else 10)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    accepted = refused = 0
    disagreements = []
    while accepted < count and refused < 20 * count + 100:
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
        except Exception as fault:  # any exception means that the configuration rejects the plan
            disagreements.append((model, layout, f"{type(fault).__name__}: {fault}"))
    print(f"{accepted} plans exported, {refused} refused by simsearch, {len(disagreements)} rejected by megatron-core")
    for disagreement in disagreements[:20]:
        print(*disagreement, sep=" | ")
    if accepted < count:
        print(f"simsearch refused nearly every plan; its message for the last one: {answer.stderr.strip()}")
    return 1 if disagreements or accepted < count else 0


if __name__ == "__main__":
    sys.exit(main())
