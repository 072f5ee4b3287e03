/* sim/cost/match.h - finds the cluster and the stack that correspond to the words of a measured
 * run.
 *
 * A row of a results table has words such as "A100-80GB-SXM", "8x HDR200" and "Megatron-LM 2021".
 * calibration/match.json maps them to file names by two ordered lists of rules, "clusters" and
 * "stacks": the first rule whose words all match wins, and its assumptions are reported.
 *
 * A pattern matches if it occurs anywhere in the text, in upper or lower case. `*` in it matches
 * any text and `|` separates alternatives. An empty pattern matches only an empty text. */
#ifndef SIM_COST_MATCH_H
#define SIM_COST_MATCH_H

#include "base/err.h"
#include "base/field.h"

struct match_rule {
    char gpu[80], network[128], software[128]; /* patterns; "*" matches anything */
    char source[48];                           /* pattern for the key of the row's source */
    char model[80];                            /* pattern for the model's name */
    int gpus_per_node;                         /* 0: any */
    int compiled;                              /* 0 or 1; -1: any */
    char use[48];                              /* the cluster or stack */
    /* rules for stacks: the stack that predicts such rows' memory; "": `use` */
    char memory[48];
    char recompute[48]; /* rules for stacks: replaces the row's recompute; "": keeps it */
    /* rules for stacks: if a row does not state ep, it is the number of data ranks */
    bool spreads_experts;
    /* rules for stacks: the pipeline drains after this number of sequences of a data rank; 0: only
     * at the end of a step */
    int local_batch;
    int routing;      /* rules for stacks: enum routing_kind of models with experts */
    int optimizer;    /* rules for stacks: enum optimizer of the row's plan */
    double capacity;  /* rules for stacks: capacity factor of experts; 0: none */
    unsigned overlap; /* rules for stacks: set of enum overlap that are on, unlike in the stack */
    /* rules for stacks: enum attention_kernel of attn=flash; ATTENTION_UNFUSED: the stack's */
    int attention;
    unsigned unfused; /* rules for stacks: set of enum fusion that are off, unlike in the stack */
    bool fp32_gradients;  /* rules for stacks: gradients are kept and summed in fp32 */
    bool graphs;          /* rules for stacks: kernels are launched as CUDA graphs */
    char assumption[160]; /* what the rule assumes; "": nothing */
    char skip[160];       /* why such rows cannot be predicted; "": they can */
    double power_w; /* rules for clusters: power limit per GPU; 0: the limit in the GPU's file */
    /* rules for clusters: whether the network is not known; half of the cluster's bandwidth between
     * nodes is then assumed */
    bool unknown_network;
};

struct match_rules {
    struct match_rule *at;
    int count;
};

/* Properties of a model that no column of a measured row states. They are found by the names of the
 * model and the software. */
struct match_model {
    char model[80], software[128]; /* patterns */
    /* preset with the same kinds of blocks; "": all blocks are equal, without experts */
    char preset[64];
    int gated; /* 0 or 1: whether the model's feed-forward is gated; -1: either */
    int norm, activation, positions; /* as in struct model */
    bool linear_bias, tied, embedding_norm;
    double dropout;
};

struct match_models {
    struct match_model *at;
    int count;
};

/* The table of rules. `{ 0 }` is an empty table, in which nothing matches. */
struct match_table {
    struct match_rules clusters, stacks; /* owned */
    struct match_models models;          /* owned */
};

/* The words of a measured row. Texts may be empty but not NULL; 0 GPUs per node: not stated. */
struct match_row {
    const char *gpu, *network, *software;
    int gpus_per_node;
    const char *source; /* the key of the row's source; NULL: none */
    int compiled;       /* whether kernels were compiled, 0 or 1; -1: not stated */
    const char *model;  /* the model's name; NULL: not stated */
};

/* The result of a match. Texts are borrowed from the table. */
struct match {
    const char *cluster, *stack;
    const char *cluster_assumption, *stack_assumption; /* assumptions of the rules; "": none */
    const char *memory; /* the stack that predicts such rows' memory; "": `stack` */
    /* the recompute of the run, if the row's is known to be wrong; "": the row's */
    const char *recompute;
    bool spreads_experts; /* if the row does not state ep, it is the number of data ranks */
    int local_batch;      /* sequences of a data rank after which the pipeline drains; 0: all */
    int routing;          /* enum routing_kind of models with experts */
    int optimizer;        /* enum optimizer */
    double capacity;      /* capacity factor of experts; 0: none */
    unsigned overlap;     /* set of enum overlap that are on, unlike in the stack */
    int attention;        /* enum attention_kernel of attn=flash; ATTENTION_UNFUSED: the stack's */
    unsigned unfused;     /* set of enum fusion that are off, unlike in the stack */
    bool fp32_gradients;  /* gradients are kept and summed in fp32, whatever the stack's are */
    bool graphs;          /* kernels are launched as CUDA graphs, however the stack does it */
    const char *skip;     /* why the row cannot be predicted; "": it can */
    double power_w;       /* power limit per GPU; 0: the limit in the GPU's file */
    /* whether the network is not known; half of the cluster's bandwidth between nodes is then
     * assumed */
    bool unknown_network;
};

/* Loads `path`, or calibration/match.json when it is NULL. Release with match_release. */
bool match_load(const char *path, struct match_table *out, struct err *err);
void match_release(struct match_table *table);

/* Finds the cluster and the stack of a row. False, with the reason in `skip`, if the row is to be
 * left out or no rule matches. */
bool match_find(const struct match_table *table, const struct match_row *row, struct match *out);

/* The properties of a model by its name; NULL: no rule matches. */
const struct match_model *match_find_model(const struct match_table *table, const char *model,
                                           const char *software, bool is_gated);

bool match_text(const char *pattern, const char *text);

extern const struct field match_fields[], match_model_fields[];
extern const size_t num_match_fields, num_match_model_fields;

#endif
