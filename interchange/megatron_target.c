/* Megatron-LM as a target: reading of its files, and the list of flags without effect on time and
 * memory. */
#include "interchange/launcher.h"
#include "interchange/megatron.h"
#include "sim/plan/state_share.h"

#include <string.h>

/* An argument list begins with a flag; anything else is a shell script. */
static bool is_list(const char *text)
{
    text += strspn(text, " \t\r\n");
    while (*text == '#' && text[1] != '!') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    return strncmp(text, "--", 2) == 0;
}

bool megatron_parse(const char *path, const char *text, struct imported *out, struct arena *arena,
                    struct err *err)
{
    struct shell_script script = { .variables.arena = arena };
    (void)path;
    if (is_list(text)) {
        shell_split(text, arena, &script.command);
    } else {
        if (!shell_read(text, arena, &script, err))
            return false;
        if (script.command.count == 0)
            return err_set(err, ERR_INPUT, "",
                           "expected a list of --flags, or a shell script that runs a .py file");
        launcher_read(&script, out);
    }
    launcher_arguments(&script.command, out);
    return true;
}

/* Writes the command line. Each flag and each value is a separate argument. */
void megatron_write(const struct job *job, struct exported *out, struct arena *arena)
{
    bool is_fsdp = plan_cuts(&job->plan, STATE_GRADIENTS);
    (void)arena;
    for (int i = 0; i < out->settings.count; i++) {
        settings_add(&out->arguments, out->settings.at[i].key, 0);
        for (int k = 0; k < out->settings.at[i].num_values; k++)
            settings_add(&out->arguments, out->settings.at[i].values[k], 0);
    }
    if (job->one_connection && !is_fsdp && (job->plan.tp > 1 || job->plan.cp > 1)) {
        struct setting *one = settings_add(&out->environment, "CUDA_DEVICE_MAX_CONNECTIONS", 0);
        setting_add_value(&out->environment, one, "1");
    }
    out->script = "${MEGATRON:-.}/pretrain_gpt.py";
    out->trial = "--mock-data --tokenizer-type NullTokenizer --train-iters 20 --lr 1e-4";
    out->remark = "MEGATRON is the folder of Megatron-LM. Data, tokenizer, learning rate and "
                  "length of the run are arguments of this script.";
}

const char *const megatron_ignored[] = {
    "--adam-",
    "--async-save",
    "--auto-detect-ckpt-format",
    "--blend",
    "--clip-grad",
    "--data-",
    "--dataloader-type",
    "--dist-ckpt",
    "--distributed-backend",
    "--distributed-timeout",
    "--eod-mask-loss",
    "--eval-",
    "--exit-",
    "--finetune",
    "--init-method",
    "--initial-loss-scale",
    "--load",
    "--log-",
    "--loss-scale",
    "--lr",
    "--make-vocab-size-divisible-by",
    "--manual-gc",
    "--merge-file",
    "--min-loss-scale",
    "--min-lr",
    "--mock-data",
    "--moe-aux-loss-coeff",
    "--moe-router-bias-update-rate",
    "--moe-router-load-balancing-type",
    "--moe-router-topk-scaling-factor",
    "--moe-z-loss-coeff",
    "--no-async-tensor-model-parallel-allreduce",
    "--no-create-attention-mask-in-dataloader",
    "--no-load-",
    "--no-save-",
    "--no-rope-fusion",
    "--num-dataset-builder-threads",
    "--num-workers",
    "--override-opt_param-scheduler",
    "--rotary-percent",
    "--rope-scaling-factor",
    "--save",
    "--seed",
    "--split",
    "--start-weight-decay",
    "--end-weight-decay",
    "--tensorboard-",
    "--test-data-path",
    "--tokenizer-model",
    "--train-data-path",
    "--timing-log",
    "--use-checkpoint-args",
    "--use-checkpoint-opt_param-scheduler",
    "--use-mcore-models",
    "--use-rope-scaling",
    "--use-rotary-position-embeddings",
    "--valid-data-path",
    "--vocab-file",
    "--wandb-",
    "--weight-decay",
    NULL,
};
