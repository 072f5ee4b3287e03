/* sim/exchange/exchange.h - how data ranks combine their gradients or weights in a step.
 *
 * With all-reduce every rank applies the same mean gradient. On slow networks or with many ranks,
 * other methods send fewer bytes or wait for fewer ranks: they average only with neighbours,
 * average only every H steps, or send gradients in fewer bits. Each method is a row of
 * `exchange_methods`. Its messages in a step are a list of phases, which the cost model and the
 * executor both use. Every function is pure.
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
    int servers;   /* number of members that act as servers and compute the sums */
    int period;    /* H: steps from one average over all ranks to the next */
    int bits;      /* bits per element in a message */
    int rank;      /* rank of the two factors that approximate a matrix */
    int rounds;    /* compressed messages per step */
    int memory;    /* enum exchange_memory */
    int staleness; /* steps by which gradients are applied late */
    /* number of hostile ranks that a robust rule tolerates; negative: as many as it can */
    int hostile;
    /* number of neighbours that average by all-reduce and act as one rank; 0: the ranks of a
     * node */
    int group;
    double share; /* share of the elements that are sent, above 0 */
};

/* Which weights a gossip step averages. COMBINE_UPDATED: the updated weights ("adapt then
 * combine"). COMBINE_BESIDE: the weights from the start of the step, while the backward runs; each
 * rank then adds its own update to the average ("adapt while combining", decentralised gradient
 * descent). */
enum exchange_combine { COMBINE_UPDATED, COMBINE_BESIDE, NUM_COMBINES };
extern const char *const exchange_combine_words[NUM_COMBINES + 1];

/* Whether the part that a message leaves out is added to the next one (error feedback). */
enum exchange_memory { MEMORY_ON, MEMORY_OFF, NUM_MEMORIES };
extern const char *const exchange_memory_words[NUM_MEMORIES + 1];

/* Whether an exchange sends gradients, before the update, or weights. */
enum exchange_object { EXCHANGE_GRADIENTS, EXCHANGE_WEIGHTS };

/* When the exchange of a step can begin. */
enum exchange_start {
    START_GRADIENTS, /* when the last backward has computed its first gradients */
    /* at the start of the step: it averages the weights, or sums the gradients of the step
     * before */
    START_STEP,
    START_UPDATED, /* after the update: fully exposed */
};

enum exchange_parameter_kind { PARAMETER_COUNT, PARAMETER_SHARE, PARAMETER_WORD };

/* One of a method's parameters; the rows are in methods.c. */
struct exchange_parameter {
    const char *name; /* such as "K" */
    const char *doc;  /* one sentence */
    enum exchange_parameter_kind kind;
    size_t member;            /* offset in struct exchange: an int, or a double for shares */
    double min, max;          /* range of a number */
    const char *const *words; /* words of an enum; NULL-terminated */
    bool is_optional;         /* written NAME=VALUE after the others; `fallback` if absent */
    bool is_bare;             /* optional, but written without its name */
    int fallback;
};
enum { MAX_EXCHANGE_PARAMETERS = 4 };

/* Tensors of equal shape that one rank exchanges: matrices, or vectors (one column). */
struct exchange_tensor {
    double rows, columns;
    double count;
};

/* The tensors that one rank exchanges together: a bucket, a chunk or all. */
struct exchange_load {
    const struct exchange_tensor *tensors;
    int num_tensors;
    double element_bytes; /* bytes of an uncompressed element */
};
double exchange_elements(const struct exchange_load *load);

/* The data ranks of a plan, numbered from 0; ranks of one node are consecutive. */
struct exchange_ranks {
    int count;
    int per_node; /* data ranks per node; 1 or more */
};

/* One step of an exchange, run by all ranks of a data group at the same time. The next phase begins
 * when it ends. */
enum exchange_phase_kind {
    PHASE_ALL_REDUCE, /* sum over all members, by the fastest algorithm of the library */
    /* a sum over all members by a ring: each of n members sends 2 (n-1) parts of 1/n to the next
     * member */
    PHASE_RING,
    PHASE_TREE, /* a sum over all members, up and down a binary tree, with all bytes in each message
                 */
    /* a sum over all members, in which `peers` of them are servers that sum an equal part each;
     * server i is member i x size / peers, rounded down */
    PHASE_SERVERS,
    PHASE_REDUCE_SCATTER, /* a sum, of which each member gets the part with its own index */
    PHASE_ALL_GATHER,     /* each member sends its bytes to all others */
    PHASE_ALL_TO_ALL, /* each member gets the part with its own index from all others, not summed */
    PHASE_PEERS,      /* each member exchanges messages with `peers` neighbours in a graph */
    NUM_PHASE_KINDS
};
extern const char *const exchange_phase_words[NUM_PHASE_KINDS + 1]; /* such as "all_reduce" */

/* A phase of an exchange. The members of a group are `size` ranks, `stride` apart; all such groups
 * run the phase at the same time. */
struct exchange_phase {
    enum exchange_phase_kind kind;
    enum exchange_object object;
    int size, stride;
    int peers;    /* number of neighbours or servers */
    double bytes; /* bytes of one member's summand or message */
};
enum { MAX_EXCHANGE_PHASES = 8 };

struct exchange_phases {
    struct exchange_phase at[MAX_EXCHANGE_PHASES];
    int count;
};

/* Bytes that all `num_ranks` together send in a phase; 0 for one rank. Any sum needs at least n - 1
 * summands sent and n - 1 sums returned. */
double phase_wire_bytes(const struct exchange_phase *phase, int num_ranks);

/* One method. To add a method, add a row to `exchange_methods` in methods.c; grammar, cost, `list
 * exchanges`, docs and tests read the table. */
struct exchange_method {
    const char *name;    /* such as "gossip" */
    const char *form;    /* such as "gossip:GRAPH" */
    const char *tried;   /* the text, with parameters, that a search over exchanges tries */
    const char *summary; /* one sentence */
    const char *source;
    /* How its update differs from that of all-reduce, in one sentence; NULL if it does not. */
    const char *changes;
    enum exchange_object object;
    struct exchange_parameter
        parameters[MAX_EXCHANGE_PARAMETERS]; /* the list ends at the first without a name */
    /* Whether the method can run on `num_ranks` ranks, two or more; if not, ERR_INFEASIBLE. NULL:
     * always. */
    bool (*accepts)(const struct exchange *exchange, int num_ranks, struct err *err);
    /* Adds the phases of one step for two ranks or more. `averages`: the step ends a period. */
    void (*phases)(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out);
    /* NULL: messages are not compressed. */
    const struct compressor *compressor;
    /* The rule that replaces the mean (sim/exchange/robust.h); NULL: the mean. */
    const struct robust_rule *rule;
    bool adapts; /* the period grows as the loss falls */
};
extern const struct exchange_method exchange_methods[];
extern const int num_exchange_methods;
const struct exchange_method *exchange_method_of(const struct exchange *exchange);

/* The content of a compressed message: rounded elements (QSGD); the largest elements, with error
 * feedback (top-k); the largest changes since the last message (EF21); two factors of low rank
 * (PowerSGD). */
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
    bool is_unbiased; /* the expectation of C(x) is x */
    /* copies of the exchanged values that a rank keeps between steps for error feedback */
    int copies;
    /* Bytes of one rank's message; with several rounds, of the message of each round. */
    double (*message_bytes)(const struct exchange *exchange, const struct exchange_load *load);
    /* Unbiased: omega in E||C(x) - x||^2 <= omega ||x||^2. Contractive: delta in ||C(x) - x||^2 <=
     * (1 - delta) ||x||^2. The bound holds for every x and for all rounds together. */
    double (*bound)(const struct exchange *exchange, const struct exchange_load *load);
    /* Bytes of device memory traffic to compress a step's messages and to add up `received`
     * messages of other ranks. */
    double (*traffic_bytes)(const struct exchange *exchange, const struct exchange_load *load,
                            int received);
};

/* Reads the text form. A failure is ERR_USAGE with an empty `where`; the message says what was
 * expected and names the nearest word. */
bool exchange_read(const char *text, struct exchange *out, struct err *err);
void exchange_write(const struct exchange *exchange, struct text *out);
bool exchange_is_default(const struct exchange *exchange);

/* Whether all ranks hold the same weights after every step, as with all-reduce. */
bool exchange_keeps_replicas_equal(const struct exchange *exchange);
/* Whether the method first sums gradients by all-reduce within groups of neighbours (group=) and
 * then averages weights. */
bool exchange_sums_in_groups(const struct exchange *exchange);
/* Whether a step applies the gradients of an earlier step. */
bool exchange_is_late(const struct exchange *exchange);
enum exchange_start exchange_start(const struct exchange *exchange);

/* Whether step `step`, from 0, ends with an average over all ranks; always true without a
 * period. */
bool exchange_averages(const struct exchange *exchange, int step);
/* Number of steps after which the phases repeat. */
int exchange_cycle(const struct exchange *exchange);
/* The period adapted to the loss. It is the first period times first loss / loss (Chen et al. 2021,
 * algorithm 2), and never shorter than at the start. Losses are above 0. */
int exchange_adapted_period(const struct exchange *exchange, double first_loss, double loss);
/* The share of a run's steps that end a period. An adaptive period depends on the first loss and on
 * `losses`, one for each equal part of the run. There is at least one, and all are above 0. */
double exchange_averaging_share(const struct exchange *exchange, double first_loss,
                                const double *losses, int num_losses);

/* Number of ranks that act as one: the given group, or the ranks of a node if they divide all
 * ranks. */
int exchange_group_size(const struct exchange *exchange, const struct exchange_ranks *ranks);

/* The phases of a step; `averages`: the step ends a period. There are none for one rank. */
struct exchange_phases exchange_phases_of(const struct exchange *exchange,
                                          const struct exchange_load *load,
                                          const struct exchange_ranks *ranks, bool averages);
/* The phases of step `step`. There are none for one rank. */
struct exchange_phases exchange_phases(const struct exchange *exchange,
                                       const struct exchange_load *load,
                                       const struct exchange_ranks *ranks, int step);
/* Bytes that all ranks together send in step `step`. */
double exchange_wire_bytes(const struct exchange *exchange, const struct exchange_load *load,
                           const struct exchange_ranks *ranks, int step);

#endif
