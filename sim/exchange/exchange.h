/* sim/exchange/exchange.h - how data ranks agree on what a step has learned.
 *
 * All-reduce makes every rank add the same mean gradient. When the network is slow, or the ranks
 * are many, other methods move less or wait for fewer: they average with neighbours alone, or now
 * and then, or send gradients in fewer bits. A method is a row of `exchange_methods`; what it sends
 * in a step is a list of phases, which cost model and executor both read. Every function is pure.
 *
 * Text form, the value of the layout's word "exchange=": a name, then what it needs, then what it
 * may have by name, each behind a colon: "ps:4", "gossip:exp:combine=beside", "pga:6:graph=ring".
 */
#ifndef SIM_EXCHANGE_EXCHANGE_H
#define SIM_EXCHANGE_EXCHANGE_H

#include "base/err.h"
#include "base/text.h"
#include "sim/exchange/mixing.h"

#include <stdbool.h>
#include <stddef.h>

/* A method and its parameters; those that the method does not have are 0. All 0: all-reduce. */
struct exchange {
    int method;   /* index in exchange_methods */
    int graph;    /* enum mixing_graph: who averages with whom */
    int combine;  /* enum exchange_combine */
    int servers;  /* that the sums are made on */
    int period;   /* steps from one global average to the next: H */
    int bits;     /* of an element on the wire */
    int rank;     /* of the two factors that stand for a matrix */
    int rounds;   /* of compressed messages in a step */
    int memory;   /* enum exchange_memory */
    int group;    /* neighbours that average by all-reduce and act as one; 0: those of a node */
    double share; /* of the elements that are sent, above 0 */
};

/* How weights are averaged in a step of gossip: the updated ones (adapt then combine), or, beside
 * the backward, those that the step began with (adapt while combining; decentralised gradient
 * descent), to which each rank then adds its own update. */
enum exchange_combine { COMBINE_UPDATED, COMBINE_BESIDE, NUM_COMBINES };
extern const char *const exchange_combine_words[NUM_COMBINES + 1];

/* Whether what a message leaves out is added to the next one (error feedback). */
enum exchange_memory { MEMORY_ON, MEMORY_OFF, NUM_MEMORIES };
extern const char *const exchange_memory_words[NUM_MEMORIES + 1];

/* An exchange is of gradients, before the update, or of weights. */
enum exchange_object { EXCHANGE_GRADIENTS, EXCHANGE_WEIGHTS };

/* When the exchange of a step can begin. */
enum exchange_start {
    START_GRADIENTS, /* with the first gradients that the last backward has made */
    START_STEP,      /* with the step: what is averaged are the weights that it begins with */
    START_UPDATED,   /* with the updated weights: nothing of the step is left to hide it */
};

enum exchange_parameter_kind { PARAMETER_COUNT, PARAMETER_SHARE, PARAMETER_WORD };

/* One of a method's parameters; rows in methods.c. */
struct exchange_parameter {
    const char *name; /* "K" */
    const char *doc;  /* one sentence */
    enum exchange_parameter_kind kind;
    size_t member;            /* offset in struct exchange: of an int, or of a double for shares */
    double min, max;          /* counts */
    const char *const *words; /* of an enum; NULL-terminated */
    bool is_optional;         /* written NAME=VALUE, after the others; absent: `fallback` */
    int fallback;
};
enum { MAX_EXCHANGE_PARAMETERS = 4 };

/* Equal tensors of what one rank has to exchange: matrices, or vectors (one column). */
struct exchange_tensor {
    double rows, columns;
    double count;
};

/* What one rank has to exchange at once: a bucket, a chunk or all. */
struct exchange_load {
    const struct exchange_tensor *tensors;
    int num_tensors;
    double element_bytes; /* of an element that is not compressed */
};
double exchange_elements(const struct exchange_load *load);

/* The data ranks of a plan, numbered from 0, neighbours in a node first. */
struct exchange_ranks {
    int count;
    int per_node; /* of them; 1 or more */
};

/* What ranks of a data group do at once; the next phase begins when it is over. */
enum exchange_phase_kind {
    PHASE_ALL_REDUCE, /* summed over all members, by the algorithm that the library finds fastest */
    PHASE_RING,       /* the same by a ring: each member hands 2 (n-1) parts of 1/n to the next */
    PHASE_TREE,       /* the same up and down a binary tree, everything in each hop */
    PHASE_SERVERS,    /* the same on `peers` members, an equal part each, and back: the i-th of them
                         is member i x size / peers, rounded down */
    PHASE_REDUCE_SCATTER, /* summed, of which each member has the part at its place */
    PHASE_ALL_GATHER,     /* every member's bytes to all others */
    PHASE_PEERS,          /* bytes to each of `peers` neighbours in a graph, and from as many */
    NUM_PHASE_KINDS
};
extern const char *const exchange_phase_words[NUM_PHASE_KINDS + 1]; /* "all_reduce" ... */

/* Members are `size` ranks, `stride` apart; as many such groups as the ranks make are at it at
 * once. */
struct exchange_phase {
    enum exchange_phase_kind kind;
    enum exchange_object object;
    int size, stride;
    int peers;    /* neighbours, or servers */
    double bytes; /* of one member: what is summed, or its message */
};
enum { MAX_EXCHANGE_PHASES = 8 };

struct exchange_phases {
    struct exchange_phase at[MAX_EXCHANGE_PHASES];
    int count;
};

/* Bytes that all `num_ranks` together send in a phase; nothing for one rank. However a sum is made,
 * all but one member hand on one summand and are handed one sum. */
double phase_wire_bytes(const struct exchange_phase *phase, int num_ranks);

/* One method. Add yours to `exchange_methods` in methods.c: grammar, cost, `list exchanges`, docs
 * and tests find it there. */
struct exchange_method {
    const char *name;    /* "gossip" */
    const char *form;    /* "gossip:GRAPH" */
    const char *tried;   /* the text that a search over exchanges tries */
    const char *summary; /* one sentence */
    const char *source;
    /* What it does to the mathematics, one sentence; NULL: the update is that of all-reduce. */
    const char *changes;
    enum exchange_object object;
    struct exchange_parameter parameters[MAX_EXCHANGE_PARAMETERS]; /* up to the first nameless */
    /* Whether so many ranks, two or more, can do it (ERR_INFEASIBLE). NULL: always. */
    bool (*accepts)(const struct exchange *exchange, int num_ranks, struct err *err);
    /* Adds what one step of two ranks or more sends. `averages`: it ends a period. */
    void (*phases)(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out);
    /* NULL: what is sent is what it stands for. */
    const struct compressor *compressor;
    bool adapts; /* its period grows as the loss falls */
};
extern const struct exchange_method exchange_methods[];
extern const int num_exchange_methods;
const struct exchange_method *exchange_method_of(const struct exchange *exchange);

/* What a message holds of what it is of: roundings, the largest elements of it and of what earlier
 * ones left out, the largest changes since the last, thin factors. */
enum compression {
    COMPRESSION_ROUNDED,
    COMPRESSION_LARGEST,
    COMPRESSION_CHANGES,
    COMPRESSION_FACTORS,
    NUM_COMPRESSIONS
};

/* How a message C(x) stands for what it is of. */
struct compressor {
    enum compression kind;
    bool is_unbiased; /* E C(x) = x */
    int copies;       /* of what is exchanged that a rank keeps for the next step, with memory */
    /* One rank's message in bytes; of several rounds, that of each. */
    double (*message_bytes)(const struct exchange *exchange, const struct exchange_load *load);
    /* Unbiased: omega, E||C(x) - x||^2 <= omega ||x||^2. Contractive: delta, ||C(x) - x||^2 <=
     * (1 - delta) ||x||^2. Of the worst x, all rounds together. */
    double (*bound)(const struct exchange *exchange, const struct exchange_load *load);
    /* Device memory traffic of making the messages of a step and of adding up `received` of
     * others, in bytes. */
    double (*traffic_bytes)(const struct exchange *exchange, const struct exchange_load *load,
                            int received);
};

/* The text form. Failing: ERR_USAGE, where empty, what was expected and what the nearest is. */
bool exchange_read(const char *text, struct exchange *out, struct err *err);
void exchange_write(const struct exchange *exchange, struct text *out);
bool exchange_is_default(const struct exchange *exchange);

/* All ranks hold the same weights after every step, as all-reduce leaves them. */
bool exchange_keeps_replicas_equal(const struct exchange *exchange);
/* Neighbours sum gradients by all-reduce before they average weights, or may (group=). */
bool exchange_sums_in_groups(const struct exchange *exchange);
enum exchange_start exchange_start(const struct exchange *exchange);

/* Whether step `step`, from 0, ends with all ranks' average: always, where there is no period. */
bool exchange_averages(const struct exchange *exchange, int step);
/* Steps after which what is sent repeats itself. */
int exchange_cycle(const struct exchange *exchange);
/* The period that adapts to the loss: longer in proportion as it has fallen (Chen et al. 2021,
 * algorithm 2), and never shorter than at the start. Losses above 0. */
int exchange_adapted_period(const struct exchange *exchange, double first_loss, double loss);
/* Share of a run's steps that end a period, which for one that adapts hangs on the losses that the
 * run begins with and then has, in equal parts of it; those above 0, one or more. */
double exchange_averaging_share(const struct exchange *exchange, double first_loss,
                                const double *losses, int num_losses);

/* Ranks that act as one: as many as given, or those of a node where these divide all. */
int exchange_group_size(const struct exchange *exchange, const struct exchange_ranks *ranks);

/* What a step sends that ends a period, or does not. Nothing for one rank. */
struct exchange_phases exchange_phases_of(const struct exchange *exchange,
                                          const struct exchange_load *load,
                                          const struct exchange_ranks *ranks, bool averages);
/* What step `step` of so many ranks sends. Nothing for one rank. */
struct exchange_phases exchange_phases(const struct exchange *exchange,
                                       const struct exchange_load *load,
                                       const struct exchange_ranks *ranks, int step);
/* Bytes that all ranks together send in it. */
double exchange_wire_bytes(const struct exchange *exchange, const struct exchange_load *load,
                           const struct exchange_ranks *ranks, int step);

#endif
