/* sim/cost/match.h - which cluster and stack a measured run means by its words.
 *
 * A row of a results table says "A100-80GB-SXM", "8x HDR200", "Megatron-LM 2021".
 * calibration/match.json turns that into names of files by two ordered lists of rules, "clusters"
 * and "stacks": the first rule whose words all match wins, and what it had to assume is reported.
 *
 * A pattern is looked for anywhere in the text, whatever the case of letters; `*` in it stands for
 * any text, `|` parts alternatives, and an empty pattern matches an empty text only. */
#ifndef SIM_COST_MATCH_H
#define SIM_COST_MATCH_H

#include "base/err.h"
#include "base/field.h"

struct match_rule {
    char gpu[80], network[128], software[128]; /* patterns; "*" matches anything */
    char source[48];                           /* a pattern too */
    int gpus_per_node;                         /* 0: any */
    int compiled;                              /* 0 or 1; -1: any */
    char use[48];                              /* the cluster or stack */
    char memory[48];      /* of stacks: the one whose memory it was; "": its own */
    char recompute[48];   /* of stacks: instead of the row's; "": the row's */
    char assumption[160]; /* what is taken for granted; "": nothing */
    char skip[160];       /* why there is none; "": there is */
    double power_w;       /* of clusters: the GPU's limit; 0: its own */
};

struct match_rules {
    struct match_rule *at;
    int count;
};

/* What no column of a row tells of its model, by the names of model and software. */
struct match_model {
    char model[80], software[128];   /* patterns */
    int gated;                       /* 0 or 1: of models with a feed-forward that is; -1: either */
    int norm, activation, positions; /* as in struct model */
    bool linear_bias, tied, embedding_norm;
    double dropout;
};

struct match_models {
    struct match_model *at;
    int count;
};

/* `{ 0 }` is empty: nothing matches. */
struct match_table {
    struct match_rules clusters, stacks; /* owned */
    struct match_models models;          /* the same */
};

/* What a measured row says. Texts may be empty but not NULL; 0 GPUs a node: not stated. */
struct match_row {
    const char *gpu, *network, *software;
    int gpus_per_node;
    const char *source; /* the key of its source; NULL: none */
    int compiled;       /* whether its kernels were, 0 or 1; -1: not stated */
};

/* Texts are borrowed from the table. */
struct match {
    const char *cluster, *stack;
    const char *cluster_assumption, *stack_assumption; /* "": none */
    const char *memory; /* the stack whose memory such rows had; "": that of `stack` */
    const char
        *recompute;   /* what really ran, where the row is known to be wrong; "": what it says */
    const char *skip; /* why the row cannot be predicted; "" */
    double power_w;   /* limit of the GPUs; 0: their own */
};

/* From `path`, or from calibration/match.json when it is NULL. Release with match_release. */
bool match_load(const char *path, struct match_table *out, struct err *err);
void match_release(struct match_table *table);

/* False, with `skip`, when the row is to be left out or no rule matches. */
bool match_find(const struct match_table *table, const struct match_row *row, struct match *out);

/* NULL: no rule knows it. */
const struct match_model *match_find_model(const struct match_table *table, const char *model,
                                           const char *software, bool is_gated);

bool match_text(const char *pattern, const char *text);

extern const struct field match_fields[], match_model_fields[];
extern const size_t num_match_fields, num_match_model_fields;

#endif
