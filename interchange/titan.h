/* interchange/titan.h - torchtitan's configuration, with its keys of August 2026 and older keys. */
#ifndef INTERCHANGE_TITAN_H
#define INTERCHANGE_TITAN_H

#include "interchange/target.h"

enum titan_reshard { RESHARD_DEFAULT, RESHARD_ALWAYS, RESHARD_NEVER };
enum titan_recompute { TITAN_UNSET, TITAN_NONE, TITAN_FULL, TITAN_SELECTIVE };

struct titan_args {
    const char *base;     /* name of the registry function */
    int replicate, shard; /* shard -1: all remaining ranks */
    int reshard;
    int tp;
    bool sp, async_tp;
    int pp;
    const char *schedule;
    int layers_per_stage, first_less, last_less;
    const char *parts; /* module names of each chunk, as a Python list */
    int pp_microbatches, pp_microbatch_size;
    int cp, rotate, ep;
    int microbatch_tokens, step_tokens, context; /* 0: the file has older keys instead */
    bool no_graphs;
    int local_batch, global_batch, seq;
    int dtype, param_dtype; /* 0: float32 */
    bool offload;
    int recompute, mode;
    const char *selective;
    bool compile;
    const char *model, *flavor, *converters;
};

extern const struct titan_args titan_defaults;
extern const struct setting_row titan_rows[];
extern const int num_titan_rows;
/* Keys that are always written, because the registry's function may set them. */
extern const char *const titan_always[];
extern const struct target_rule titan_rules[];
extern const int num_titan_rules;

/* A model of torchtitan's registry. */
struct titan_model {
    const char *module, *function, *flavor;
    const char *preset; /* name of this program's preset of the same model */
    double parameters;
};
/* The registry's model with as many parameters; NULL: none. */
const struct titan_model *titan_model_of(const struct model *model);

/* Functions for struct target (interchange/target.h). */
void titan_arguments(const struct job *job, void *args, struct arena *arena);
bool titan_job(const void *args, struct job *job, struct arena *arena, struct err *err);
target_parse torchtitan_parse;
target_write torchtitan_write;
extern const char *const torchtitan_ignored[];

#endif
