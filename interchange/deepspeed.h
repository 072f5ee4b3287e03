/* interchange/deepspeed.h - DeepSpeed's JSON: the division of state and batch, without the model.
 */
#ifndef INTERCHANGE_DEEPSPEED_H
#define INTERCHANGE_DEEPSPEED_H

#include "interchange/target.h"

struct deepspeed_args {
    int train_batch, micro_batch, accumulation; /* 0: not given */
    int stage;
    bool overlap;
    int shard; /* mics_shard_size; 0: all ranks */
    int tp, stages;
    bool bf16, fp16;
    int communication; /* type in which gradients are reduced */
    const char *optimizer;
    int offload_optimizer, offload_parameters;
    int checkpoints; /* activations of so many layers are kept; 0: all */
};

extern const struct deepspeed_args deepspeed_defaults;
extern const struct setting_row deepspeed_rows[];
extern const int num_deepspeed_rows;
extern const struct target_rule deepspeed_rules[];
extern const int num_deepspeed_rules;

/* Members of struct target. */
void deepspeed_arguments(const struct job *job, void *args, struct arena *arena);
bool deepspeed_job(const void *args, struct job *job, struct arena *arena, struct err *err);
target_parse deepspeed_parse;
target_write deepspeed_write;
extern const char *const deepspeed_ignored[];

#endif
