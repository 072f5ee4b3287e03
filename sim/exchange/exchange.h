/* sim/exchange/exchange.h - how data ranks combine their gradients or weights in a step.
 *
 * All-reduce makes every rank add the same mean gradient. When the network is slow or the ranks are
 * many, other methods move fewer bytes or wait for fewer ranks: they average only with neighbours,
 * average only every H steps, or send gradients in fewer bits. A method is a row of
 * `exchange_methods`; what it sends in a step is a list of phases, which the cost model and the
 * executor both read. Every function is pure.
 *
 * Text form, the value of the layout's word "exchange=": a name, then its required parameters, then
 * its optional ones by name, each after a colon: "ps:4", "gossip:exp:combine=beside",
 * "pga:6:graph=ring". */
#ifndef SIM_EXCHANGE_EXCHANGE_H
#define SIM_EXCHANGE_EXCHANGE_H

#include "base/err.h"
#include "base/text.h"
#include "sim/exchange/mixing.h"

#include <stdbool.h>
#include <stddef.h>

/* A method and its parameters; parameters of other methods are 0. All 0: all-reduce. */
struct exchange {
    int method;    /* index in exchange_methods */
    int graph;     /* enum mixing_graph: who averages with whom */
    int combine;   /* enum exchange_combine */
    int servers;   /* members that act as servers and make the sums */
    int period;    /* steps from one global average to the next: H */
    int bits;      /* of an element on the wire */
    int rank;      /* rank of the two factors that approximate a matrix */
    int rounds;    /* compressed messages per step */
    int memory;    /* enum exchange_memory */
    int staleness; /* steps by which gradients are applied late */
    int hostile;   /* ranks that a robust rule bears; negative: as many as it can */
    int group;    /* neighbours that average by all-reduce and act as one; 0: the ranks of a node */
    double share; /* share of the elements that are sent, above 0 */
};

/* The weights that a gossip step averages: the updated ones (adapt then combine), or the step's
 * initial ones while the backward runs, to which each rank then adds its own update (adapt while
 * combining; decentralised gradient descent). */
enum exchange_combine { COMBINE_UPDATED, COMBINE_BESIDE, NUM_COMBINES };
extern const char *const exchange_combine_words[NUM_COMBINES + 1];

/* Whether the part that a message leaves out is added to the next one (error feedback). */
enum exchange_memory { MEMORY_ON, MEMORY_OFF, NUM_MEMORIES };
extern const char *const exchange_memory_words[NUM_MEMORIES + 1];

/* An exchange sends gradients, before the update, or weights. */
enum exchange_object { EXCHANGE_GRADIENTS, EXCHANGE_WEIGHTS };

/* When the exchange of a step can begin. */
enum exchange_start {
    START_GRADIENTS, /* once the last backward has made its first gradients */
    START_STEP,      /* with the step: its initial weights are averaged, or the gradients of the
                        step before are summed */
    START_UPDATED,   /* after the update: fully exposed */
};

enum exchange_parameter_kind { PARAMETER_COUNT, PARAMETER_SHARE, PARAMETER_WORD };

/* One of a method's parameters; rows in methods.c. */
struct exchange_parameter {
    const char *name; /* "K" */
    const char *doc;  /* one sentence */
    enum exchange_parameter_kind kind;
    size_t member;            /* offset in struct exchange: an int, or a double for shares */
    double min, max;          /* counts */
    const char *const *words; /* words of an enum; NULL-terminated */
    bool is_optional;         /* written NAME=VALUE, after the others; absent: `fallback` */
    bool is_bare;             /* optional, but written without its name */
    int fallback;
};
enum { MAX_EXCHANGE_PARAMETERS = 4 };

/* Equally shaped tensors that one rank exchanges: matrices, or vectors (one column). */
struct exchange_tensor {
    double rows, columns;
    double count;
};

/* What one rank exchanges at once: a bucket, a chunk or everything. */
struct exchange_load {
    const struct exchange_tensor *tensors;
    int num_tensors;
    double element_bytes; /* bytes of an uncompressed element */
};
double exchange_elements(const struct exchange_load *load);

/* The data ranks of a plan, numbered from 0, neighbours in a node first. */
struct exchange_ranks {
    int count;
    int per_node; /* data ranks per node; 1 or more */
};

/* What all ranks of a data group do at the same time; the next phase begins when it ends. */
enum exchange_phase_kind {
    PHASE_ALL_REDUCE, /* summed over all members, by the library's fastest algorithm */
    PHASE_RING,       /* the same by a ring: each member sends 2 (n-1) parts of 1/n to the next */
    PHASE_TREE,       /* the same up and down a binary tree, all bytes in each hop */
    PHASE_SERVERS, /* the same on `peers` server members, an equal part each, and back: server i is
                      member i x size / peers, rounded down */
    PHASE_REDUCE_SCATTER, /* summed; each member gets the part of its index */
    PHASE_ALL_GATHER,     /* every member's bytes to all others */
    PHASE_ALL_TO_ALL,     /* each member gets the part of its index from all, not summed */
    PHASE_PEERS,          /* bytes to and from each of `peers` neighbours in a graph */
    NUM_PHASE_KINDS
};
extern const char *const exchange_phase_words[NUM_PHASE_KINDS + 1]; /* "all_reduce" ... */

/* The members of a group are `size` ranks, `stride` apart; all such groups of the ranks run the
 * phase at once. */
struct exchange_phase {
    enum exchange_phase_kind kind;
    enum exchange_object object;
    int size, stride;
    int peers;    /* neighbours, or servers */
    double bytes; /* of one member: its summand or its message */
};
enum { MAX_EXCHANGE_PHASES = 8 };

struct exchange_phases {
    struct exchange_phase at[MAX_EXCHANGE_PHASES];
    int count;
};

/* Bytes that all `num_ranks` together send in a phase; 0 for one rank. In any sum, all members but
 * one send one summand and receive one sum. */
double phase_wire_bytes(const struct exchange_phase *phase, int num_ranks);

/* One method. Add yours to `exchange_methods` in methods.c: grammar, cost, `list exchanges`, docs
 * and tests find it there. */
struct exchange_method {
    const char *name;    /* "gossip" */
    const char *form;    /* "gossip:GRAPH" */
    const char *tried;   /* the text of the variant that a search over exchanges tries */
    const char *summary; /* one sentence */
    const char *source;
    /* How its update differs from all-reduce's, in one sentence; NULL: it does not. */
    const char *changes;
    enum exchange_object object;
    struct exchange_parameter
        parameters[MAX_EXCHANGE_PARAMETERS]; /* ends at the first without a name */
    /* Whether it works on `num_ranks` ranks, two or more (ERR_INFEASIBLE). NULL: always. */
    bool (*accepts)(const struct exchange *exchange, int num_ranks, struct err *err);
    /* Adds the phases of one step of two ranks or more. `averages`: the step ends a period. */
    void (*phases)(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out);
    /* NULL: messages are not compressed. */
    const struct compressor *compressor;
    /* The rule that replaces the mean (sim/exchange/robust.h); NULL: the mean. */
    const struct robust_rule *rule;
    bool adapts; /* its period grows as the loss falls */
};
extern const struct exchange_method exchange_methods[];
extern const int num_exchange_methods;
const struct exchange_method *exchange_method_of(const struct exchange *exchange);

/* What a compressed message holds: rounded elements; the largest elements, with what earlier
 * messages left out; the largest changes since the last; thin factors. */
enum compression {
    COMPRESSION_ROUNDED,
    COMPRESSION_LARGEST,
    COMPRESSION_CHANGES,
    COMPRESSION_FACTORS,
    NUM_COMPRESSIONS
};

/* How a message C(x) approximates x. */
struct compressor {
    enum compression kind;
    bool is_unbiased; /* E C(x) = x */
    int copies;       /* copies of the exchanged values that a rank keeps between steps, when it has
                         memory */
    /* Bytes of one rank's message; with several rounds, of each round's. */
    double (*message_bytes)(const struct exchange *exchange, const struct exchange_load *load);
    /* Unbiased: omega in E||C(x) - x||^2 <= omega ||x||^2. Contractive: delta in ||C(x) - x||^2 <=
     * (1 - delta) ||x||^2. For the worst x and all rounds together. */
    double (*bound)(const struct exchange *exchange, const struct exchange_load *load);
    /* Bytes of device memory traffic to make a step's messages and to add up `received` messages of
     * others. */
    double (*traffic_bytes)(const struct exchange *exchange, const struct exchange_load *load,
                            int received);
};

/* The text form. Failure: ERR_USAGE with an empty `where`, what was expected and the nearest
 * word. */
bool exchange_read(const char *text, struct exchange *out, struct err *err);
void exchange_write(const struct exchange *exchange, struct text *out);
bool exchange_is_default(const struct exchange *exchange);

/* Whether all ranks hold the same weights after every step, as with all-reduce. */
bool exchange_keeps_replicas_equal(const struct exchange *exchange);
/* Whether the method sums gradients by all-reduce among neighbours before it averages weights
 * (group=). */
bool exchange_sums_in_groups(const struct exchange *exchange);
/* Whether a step applies the gradients of an earlier one. */
bool exchange_is_late(const struct exchange *exchange);
enum exchange_start exchange_start(const struct exchange *exchange);

/* Whether step `step`, from 0, ends with an average over all ranks; always true without a
 * period. */
bool exchange_averages(const struct exchange *exchange, int step);
/* Steps after which the phases repeat. */
int exchange_cycle(const struct exchange *exchange);
/* The period adapted to the loss: it grows in proportion as the loss falls (Chen et al. 2021,
 * algorithm 2) and is never shorter than at the start. Losses are above 0. */
int exchange_adapted_period(const struct exchange *exchange, double first_loss, double loss);
/* The share of a run's steps that end a period. An adaptive period depends on the first loss and on
 * `losses`, one for each equal part of the run; at least one, all above 0. */
double exchange_averaging_share(const struct exchange *exchange, double first_loss,
                                const double *losses, int num_losses);

/* Number of ranks that act as one: the given group, or the ranks of a node when they divide all. */
int exchange_group_size(const struct exchange *exchange, const struct exchange_ranks *ranks);

/* The phases of a step that does, or does not, end a period. None for one rank. */
struct exchange_phases exchange_phases_of(const struct exchange *exchange,
                                          const struct exchange_load *load,
                                          const struct exchange_ranks *ranks, bool averages);
/* The phases of step `step`. None for one rank. */
struct exchange_phases exchange_phases(const struct exchange *exchange,
                                       const struct exchange_load *load,
                                       const struct exchange_ranks *ranks, int step);
/* Bytes that all ranks together send in step `step`. */
double exchange_wire_bytes(const struct exchange *exchange, const struct exchange_load *load,
                           const struct exchange_ranks *ranks, int step);

#endif
