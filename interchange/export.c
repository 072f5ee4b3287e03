/* The files of an export that all targets share: args.txt, env.sh and the launch script. */
#include "interchange/target.h"

#include "base/length.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

static const char plain_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                    "_./:=,+@%-";

/* Writes a word for a shell: unquoted if every character is safe, else in single quotes. */
static void add_quoted(struct text *out, const char *word)
{
    if (*word && word[strspn(word, plain_letters)] == '\0') {
        text_add(out, "%s", word);
        return;
    }
    text_add(out, "'");
    for (; *word; word++)
        text_add(out, *word == '\'' ? "'\\''" : "%c", *word);
    text_add(out, "'");
}

/* Writes a name that is safe in a comment or after #SBATCH: other characters become '-'. */
static void add_name(struct text *out, const char *name)
{
    for (int i = 0; name[i] && i < 60; i++)
        text_add(out, "%c",
                 isalnum((unsigned char)name[i]) || strchr("._-", name[i]) ? name[i] : '-');
}

void exported_add(struct exported *out, const char *name, struct text *text, bool is_script,
                  struct arena *arena)
{
    assert(out->num_files < MAX_EXPORTED_FILES);
    out->files[out->num_files++] =
        (struct exported_file){ name, text_keep(text, arena), is_script };
}

static void add_environment(const struct exported *out, struct text *text)
{
    for (int i = 0; i < out->environment.count; i++) {
        text_add(text, "export %s=", out->environment.at[i].key);
        add_quoted(text, out->environment.at[i].values[0]);
        text_add(text, "\n");
    }
}

static void write_arguments(struct exported *out, struct arena *arena)
{
    struct text text = { 0 };
    for (int i = 0; i < out->arguments.count; i++)
        text_add(&text, "%s\n", out->arguments.at[i].key);
    exported_add(out, "args.txt", &text, false, arena);
}

static void write_environment(struct exported *out, struct arena *arena)
{
    struct text text = { 0 };
    text_add(&text, "# shellcheck shell=bash\n");
    add_environment(out, &text);
    exported_add(out, "env.sh", &text, false, arena);
}

const char unexported_keys_note[] = "keys of config.json that change neither weights nor time, "
                                    "such as rope_scaling, are not exported";

static void add_head(const struct job *job, const struct exported *out, const char *name,
                     struct text *text)
{
    struct text layout = { 0 };
    plan_write(&job->plan, &layout);
    text_add(text, "# ");
    add_name(text, job->model.name);
    text_add(text, " on %d GPUs, %s.\n# %s\n", job->num_gpus, text_get(&layout), out->remark);
    if (model_is_from_huggingface(&job->model))
        text_add(text, "# Missing: %s.\n", unexported_keys_note);
    if (*out->trial)
        text_add(text, "# Without arguments %s tries the plan for a few steps.\n", name);
    text_release(&layout);
}

static void add_body(const struct exported *out, int nodes, int gpus_per_node, struct text *text)
{
    text_add(text, "set -euo pipefail\n");
    add_environment(out, text);
    text_add(text, "NNODES=%d\nGPUS_PER_NODE=%d\narguments=(\n", nodes, gpus_per_node);
    for (int i = 0; i < out->arguments.count; i++) {
        text_add(text, "    ");
        add_quoted(text, out->arguments.at[i].key);
        text_add(text, "\n");
    }
    text_add(text, ")\n");
    if (*out->trial)
        text_add(text, "if [ $# -eq 0 ]; then\n    set -- %s\nfi\n", out->trial);
}

static void write_torchrun(const struct job *job, int nodes, int gpus_per_node,
                           struct exported *out, struct arena *arena)
{
    struct text text = { 0 };
    text_add(&text, "#!/usr/bin/env bash\n");
    add_head(job, out, "train.sh", &text);
    if (nodes > 1)
        text_add(&text, "# On every node: NODE_RANK=0 (1, 2 ...) MASTER_ADDR=HOST ./train.sh\n");
    add_body(out, nodes, gpus_per_node, &text);
    text_add(&text,
             "exec python3 -m torch.distributed.run --nnodes \"$NNODES\" "
             "--nproc-per-node \"$GPUS_PER_NODE\" \\\n"
             "    --node-rank \"${NODE_RANK:-0}\" --master-addr \"${MASTER_ADDR:-localhost}\" \\\n"
             "    --master-port \"${MASTER_PORT:-6000}\" \\\n"
             "    \"%s\" \"${arguments[@]}\" \"$@\"\n",
             out->script);
    exported_add(out, "train.sh", &text, true, arena);
}

/* Slurm starts one task per node, and torchrun in it one process per GPU, as in NVIDIA's own
 * template for Megatron Core. */
static void write_slurm(const struct job *job, int nodes, int gpus_per_node, struct exported *out,
                        struct arena *arena)
{
    struct text text = { 0 };
    text_add(&text, "#!/usr/bin/env bash\n#SBATCH --job-name=");
    add_name(&text, job->model.name);
    text_add(&text,
             "\n#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=%d\n"
             "#SBATCH --exclusive\n#SBATCH --signal=B:USR1@300\n#SBATCH --requeue\n"
             "#SBATCH --open-mode=append\n",
             nodes, gpus_per_node);
    add_head(job, out, "train.sbatch", &text);
    add_body(out, nodes, gpus_per_node, &text);
    text_add(&text,
             "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
             "MASTER_PORT=${MASTER_PORT:-6000}\n"
             "export NNODES GPUS_PER_NODE MASTER_ADDR MASTER_PORT\n"
             "# shellcheck disable=SC2016 # the node's own shell puts in the variables\n"
             "srun --ntasks-per-node=1 bash -c 'exec python3 -m torch.distributed.run "
             "--nnodes \"$NNODES\" \\\n"
             "    --nproc-per-node \"$GPUS_PER_NODE\" --node-rank \"$SLURM_NODEID\" \\\n"
             "    --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \"$@\"' train \\\n"
             "    \"%s\" \"${arguments[@]}\" \"$@\" &\n"
             "job=$!\n"
             "# Slurm sends USR1 five minutes before the limit: end, and queue again.\n"
             "trap 'kill -TERM \"$job\"; scontrol requeue \"$SLURM_JOB_ID\"' USR1\n"
             "wait \"$job\"\n",
             out->script);
    exported_add(out, "train.sbatch", &text, true, arena);
}

void target_export(const struct target *target, const struct job *job, enum job_launcher launch,
                   struct exported *out, struct arena *arena)
{
    _Alignas(max_align_t) char args[MAX_TARGET_ARGS];
    int in_node = job->gpus_per_node > 0 && job->num_gpus % job->gpus_per_node == 0
                      ? job->gpus_per_node
                      : job->num_gpus;
    *out = (struct exported){
        .settings.arena = arena, .arguments.arena = arena, .environment.arena = arena, .trial = ""
    };
    target->arguments(job, args, arena);
    settings_write(&target->table, args, &out->settings);
    target->write(job, out, arena);
    write_arguments(out, arena);
    write_environment(out, arena);
    if (launch == LAUNCH_SLURM)
        write_slurm(job, job->num_gpus / in_node, in_node, out, arena);
    else
        write_torchrun(job, job->num_gpus / in_node, in_node, out, arena);
}
