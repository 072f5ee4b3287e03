/* sim/cost/match.h - which cluster and stack the words of a measured run stand for.
 *
 * A row of a results table says "A100-80GB-SXM", "8x HDR200", "Megatron-LM 2021".
 * calibration/match.json maps them to file names by two ordered lists of rules, "clusters" and
 * "stacks": the first rule whose words all match wins, and its assumptions are reported.
 *
 * A pattern is looked for anywhere in the text, whatever the case of letters; `*` in it stands for
 * any text, `|` separates alternatives, and an empty pattern matches an empty text only. */
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
    char memory[48];      /* rules for stacks: the stack whose memory such rows had; "": `use` */
    char recompute[48];   /* rules for stacks: replaces the row's recompute; "": keeps it */
    bool spreads_experts; /* rules for stacks: ep not stated is as many as data ranks */
    int optimizer;        /* rules for stacks: enum optimizer of the row's plan */
    char assumption[160]; /* what the rule assumes; "": nothing */
    char skip[160];       /* why such rows cannot be predicted; "": they can */
    double power_w; /* rules for clusters: power limit of each GPU; 0: that of the GPU's file */
    bool unknown_network; /* rules for clusters: the network's words are unknown, so half of the
                             cluster's speed between nodes is assumed */
};

struct match_rules {
    struct match_rule *at;
    int count;
};

/* Properties of a model that no column of a measured row states. They are found by the names of the
 * model and the software. */
struct match_model {
    char model[80], software[128]; /* patterns */
    char preset[64]; /* preset with the same kinds of blocks; "": all blocks are alike, without
                        experts */
    int gated;       /* 0 or 1: whether the model's feed-forward is gated; -1: either */
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
    struct match_models models;          /* owned */
};

/* The words of a measured row. Texts may be empty but not NULL; 0 GPUs per node: not stated. */
struct match_row {
    const char *gpu, *network, *software;
    int gpus_per_node;
    const char *source; /* the key of the row's source; NULL: none */
    int compiled;       /* whether kernels were compiled, 0 or 1; -1: not stated */
};

/* Texts are borrowed from the table. */
struct match {
    const char *cluster, *stack;
    const char *cluster_assumption, *stack_assumption; /* "": none */
    const char *memory;    /* the stack whose memory such rows had; "": that of `stack` */
    const char *recompute; /* the recompute that really ran, when the row is known to be wrong; "":
                              the row's */
    bool spreads_experts;  /* ep is as many as data ranks, when the row does not say */
    int optimizer;         /* enum optimizer */
    const char *skip;      /* why the row cannot be predicted; "": it can */
    double power_w;        /* power limit of each GPU; 0: that of the GPU's file */
    bool unknown_network;  /* the network's words are unknown: half of the cluster's speed between
                              nodes */
};

/* Loads `path`, or calibration/match.json when it is NULL. Release with match_release. */
bool match_load(const char *path, struct match_table *out, struct err *err);
void match_release(struct match_table *table);

/* False, with `skip`, when the row is to be left out or no rule matches. */
bool match_find(const struct match_table *table, const struct match_row *row, struct match *out);

/* The properties of a model; NULL: no rule matches. */
const struct match_model *match_find_model(const struct match_table *table, const char *model,
                                           const char *software, bool is_gated);

bool match_text(const char *pattern, const char *text);

extern const struct field match_fields[], match_model_fields[];
extern const size_t num_match_fields, num_match_model_fields;

#endif
