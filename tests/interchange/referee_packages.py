#!/usr/bin/env python3
"""Checks exported files with the packages of three frameworks.

usage: SIMSEARCH=build/release/simsearch python3 tests/interchange/referee_packages.py [N] [SEED]

DeepSpeed's own class reads ds_config.json (deepspeed 0.19.8 was used). torchtitan (0.3.0) and
Megatron-Bridge (0.3.1) cannot be imported without GPUs, so their sources are read: every exported
key must be a field of the dataclass that it sets, and every name that the file imports must be
defined. torchtitan's function is run on a stand-in of its configuration. A package that is not
installed is skipped. Exits 1 if a file is rejected.
"""
import ast
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

MODELS = {"deepspeed": ["llama3-8b", "gpt3-13b", "llama2-70b"], "torchtitan": ["llama3-8b", "llama3-70b", "llama3-405b"],
          "bridge": ["llama3-8b", "llama3-70b", "gpt3-13b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"]}


def folder_of(package):
    """The folder of a package's sources; None if it is not installed. Does not import the package."""
    parent, _, name = package.rpartition(".")
    for path in (importlib.util.find_spec(parent).submodule_search_locations if parent and importlib.util.find_spec(parent)
                 else [] if parent else sys.path):
        if os.path.isdir(os.path.join(path, name)):
            return os.path.join(path, name)
    return None


def fields_of(*files):
    """{class: fields}. Includes the fields of base classes that are in the same files."""
    classes = {}
    for file in files:
        with open(file, encoding="utf-8") as source:
            for node in ast.walk(ast.parse(source.read())):
                if isinstance(node, ast.ClassDef):
                    bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
                    own = {line.target.id for line in node.body
                           if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)}
                    old = classes.get(node.name, ([], set()))
                    classes[node.name] = (old[0] + bases, old[1] | own)
    def all_of(name, seen=()):
        bases, own = classes.get(name, ([], set()))
        return own.union(*(all_of(base, (*seen, name)) for base in bases if base not in seen and base != name))
    return {name: all_of(name) for name in classes}


def judge_deepspeed(exported):
    """Lets DeepSpeed's class read the file on as many data ranks as the layout has."""
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("LOCAL_RANK", "0")
    from deepspeed.runtime import config as module

    axes = {word.rstrip("0123456789"): word for word in exported["layout"].split()}
    ranks = int(axes["dp"][2:])
    module.dist.get_world_size = lambda *_: ranks
    module.dist.get_rank = lambda *_: 0
    config = module.DeepSpeedConfig(exported["files"]["ds_config.json"])
    batch = config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * ranks
    assert batch == config.train_batch_size, batch
    assert axes["pp"] == "pp1" or config.zero_config.stage < 2, "PipelineEngine supports only ZeRO stages below 2"


def names_in(file):
    with open(file, encoding="utf-8") as source:
        return {node.name for node in ast.parse(source.read()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def stand_in(fields):
    """An object that rejects every other field, as torchtitan's dataclasses with slots do."""
    made = type("Section", (), {"__slots__": sorted(fields)})()
    for field in fields:
        setattr(made, field, None)
    return made


def judge_torchtitan(exported):
    """Runs the exported function on a configuration with the fields of the package's dataclasses."""
    root = folder_of("torchtitan")
    fields = fields_of(os.path.join(root, "config/configs.py"))
    text = exported["files"]["simsearch_config.py"]
    names = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            file = os.path.join(os.path.dirname(root), *node.module.split(".")) + ".py"
            missing = {name.name for name in node.names} - names_in(file)
            assert not missing, f"{node.module} does not define {missing}"
            names.update({name.name: None for name in node.names})
    config = stand_in({"parallelism", "training", "activation_checkpoint"})
    config.parallelism, config.training = stand_in(fields["ParallelismConfig"]), stand_in(fields["TrainingConfig"])
    made = type("Class", (), {"Config": staticmethod(lambda **_: object())})
    names.update({name: (lambda: config) if name[0].islower() else made for name in names})
    # safe, as simsearch wrote this text
    exec("\n".join(line for line in text.split("\n") if not line.startswith("from ")), names)
    assert names["simsearch_plan"]() is config
    batch = config.training.global_batch_size
    assert batch is None or batch % config.training.local_batch_size == 0, batch


def judge_bridge(exported):
    root, core = folder_of("megatron.bridge"), folder_of("megatron.core")
    fields = fields_of(*(os.path.join(root, name) for name in (
        "training/config.py", "models/gpt_provider.py", "models/transformer_config.py")), *(os.path.join(core, name) for name in (
            "transformer/transformer_config.py", "model_parallel_config.py",
            "distributed/distributed_data_parallel_config.py", "optimizer/optimizer_config.py")))
    fields["DistributedDataParallelConfig"] |= fields.get("MCoreDistributedDataParallelConfig", set())
    model = fields["GPTModelProvider"] | fields["TransformerConfig"] | fields["MLATransformerConfig"]
    sections = {"model": model, "train": fields["TrainingConfig"], "ddp": fields["DistributedDataParallelConfig"],
                "checkpoint": fields["CheckpointConfig"], "optimizer": fields["OptimizerConfig"]}
    sections.update({name: fields[kind] for name, kind in (
        ("comm_overlap", "CommOverlapConfig"), ("mixed_precision", "MixedPrecisionConfig")) if kind in fields})
    for word in exported["arguments"]:
        section, _, key = word.split("=")[0].partition(".")
        assert section not in sections or key in sections[section], f"section {section} has no field {key}"
        assert section in sections, f"there is no section {section}"


JUDGES = {"deepspeed": ("deepspeed", judge_deepspeed), "torchtitan": ("torchtitan", judge_torchtitan),
          "bridge": ("megatron.bridge", judge_bridge)}


def draw(rng):
    power = lambda most: 2 ** rng.randrange(most)
    words = [f"tp{power(4)}", f"pp{rng.choice([1, 1, 2, 4, 8])}", f"mb{power(3)}"]
    for choice in ([[], ["sp"]], [[], ["vpp2"], [f"cp{power(3)}"]], [[], ["zero1"], ["zero2"], ["zero3"]], [[], ["ep4"]],
                   [[], ["recompute=full"], ["recompute=selective"], ["recompute=op-selective"], ["recompute=block:2"]]):
        words += rng.choice(choice)
    return " ".join(words)


def export(target, model, layout, folder):
    command = [os.environ["SIMSEARCH"], "export", "--model", model, "--gpus", "64", "--batch", "512", "--layout", layout,
               "--to", target, "-o", folder, "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    exported = json.loads(answer.stdout)
    exported["files"] = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            exported["files"][name] = json.load(file) if name == "ds_config.json" else file.read()
    exported["layout"] = json.loads(exported["files"]["plan.json"])["layout"]
    return exported


def main():
    count = int(sys.argv[1] or "20") if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    rejected = []
    for target, (package, judge) in JUDGES.items():
        if not folder_of(package):
            print(f"{target}: {package} is not installed")
            continue
        judged = 0
        for _ in range(40 * count):
            if judged == count:
                break
            model, layout = rng.choice(MODELS[target]), draw(rng)
            with tempfile.TemporaryDirectory() as folder:
                exported = export(target, model, layout, os.path.join(folder, "plan"))
            if not exported:
                continue
            judged += 1
            try:
                judge(exported)
            except Exception as fault:  # any exception means that the package rejects the file
                rejected.append((target, model, layout, f"{type(fault).__name__}: {fault}"))
        print(f"{target}: {judged} plans judged, {sum(row[0] == target for row in rejected)} rejected")
    for row in rejected[:20]:
        print(*row, sep=" | ")
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
