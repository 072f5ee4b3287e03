/* interchange/deepspeed.h - DeepSpeed's JSON configuration. It describes sharding and batch, but
 * not the model. */
#ifndef INTERCHANGE_DEEPSPEED_H
#define INTERCHANGE_DEEPSPEED_H

#include "interchange/target.h"

struct deepspeed_args {
    int train_batch, micro_batch, accumulation; /* 0: not given */
    int stage;
    bool overlap;
    int shard; /* mics_shard_size: ranks that shard the state; 0: all ranks */
    int tp, stages;
    bool bf16, fp16;
    int communication; /* type in which gradients are reduced */
    const char *optimizer;
    int offload_optimizer, offload_parameters;
    int checkpoints; /* number of layers whose activations are kept; 0: all */
};

extern const struct deepspeed_args deepspeed_defaults;
extern const struct setting_row deepspeed_rows[];
extern const int num_deepspeed_rows;
extern const struct target_rule deepspeed_rules[];
extern const int num_deepspeed_rules;

/* Functions for struct target (interchange/target.h). */
void deepspeed_arguments(const struct job *job, void *args, struct arena *arena);
bool deepspeed_job(const void *args, struct job *job, struct arena *arena, struct err *err);
target_parse deepspeed_parse;
target_write deepspeed_write;
extern const char *const deepspeed_ignored[];

#endif
