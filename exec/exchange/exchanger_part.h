/* exec/exchange/exchanger_part.h - the internals of an exchanger, for the methods of this
 * folder. */
#ifndef EXEC_EXCHANGE_EXCHANGER_PART_H
#define EXEC_EXCHANGE_EXCHANGER_PART_H

#include "exec/exchange/exchanger.h"

#include "base/arena.h"

/* A range of an array's elements: all of them, or one part while the array is scattered. */
struct span {
    float *at;
    size_t count;
};

/* Returns part `part` of `parts` equal parts. */
static inline struct span span_part(struct span span, int part, int parts)
{
    size_t count = span.count / (size_t)parts;
    return (struct span){ span.at + (size_t)part * count, count };
}

struct power_factors;

struct exchanger {
    struct exchanger_setup on;
    struct exchange exchange;
    const struct exchange_runner *runner;
    struct exchange_load load;
    struct arena arena;
    size_t elements, padded;
    struct exchange_phases phases; /* phases of this step */
    int step;
    bool ends_period;
    int since; /* steps since the last average over all ranks, this one included */
    double first_loss, planned_bytes; /* first_loss: 0 if not known */
    float *received;  /* buffer for data of another rank or of all neighbours; or NULL */
    float *memory;    /* compressed methods: before sending, the gradients plus the fed-back error;
                         afterwards, the part that was not sent */
    float *own, *sum; /* EF21: the other ranks' estimate of this rank's gradient; sum of all ranks'
                         estimates */
    float *pending,
        *late;            /* async: gradients of the previous step; sums that are not applied yet */
    double *distances;    /* robust aggregation: squared distances between all ranks, then their
                           * weights */
    char *messages;       /* messages of all ranks, in rank order */
    size_t message_bytes; /* bytes of each message */
    struct power_factors *powers; /* in the arena */
};

/* The functions that run a method. Methods that exchange the same object with the same compression
 * share them (runners.c). */
struct exchange_runner {
    /* Allocates the method's device memory; NULL: it needs none. */
    bool (*open)(struct exchanger *exchanger, struct err *err);
    void (*sum)(struct exchanger *exchanger, float *gradients);
    bool combines; /* whether it needs kernels that combine arrays, or kernels of robust
                    * aggregation */
    /* The number of ranks whose gradients a step sums; NULL: all. */
    int (*num_summed)(const struct exchanger *exchanger);
    /* Runs the work that overlaps the passes, before the step's gradients exist. NULL: there is
     * none. */
    void (*begin)(struct exchanger *exchanger);
    /* Averages weights; NULL: the method does not. */
    void (*average)(struct exchanger *exchanger, const float *weights, float *out);
    /* The method's results of exchange_keeps and exchanger_kept; NULL and no arrays if it keeps
     * nothing. */
    const char *keeps;
    int (*kept)(const struct exchanger *exchanger, struct kept *out);
    bool keeps_memory_alone; /* whether `keeps` is only the memory of errors, so that nothing is
                                kept with memory=off */
    /* The memory that `open` allocates, in elements. */
    double (*memory_elements)(const struct exchange *exchange, const struct exchange_load *load,
                              const struct exchange_ranks *ranks);
};
const struct exchange_runner *exchange_runner_of(const struct exchange *exchange);

/* --- building blocks of methods --------------------------------------------------------------- */

/* Allocates `elements` floats of zeroed device memory; NULL with err. */
float *exchanger_take(struct exchanger *exchanger, size_t elements, struct err *err);
/* Allocates the message buffers of all ranks, `bytes` each. */
bool exchanger_take_messages(struct exchanger *exchanger, double bytes, struct err *err);
void *exchanger_message(const struct exchanger *exchanger, int rank);
void exchanger_gather_messages(struct exchanger *exchanger); /* all ranks receive all messages */

void exchanger_copy(struct exchanger *exchanger, float *to, const float *from, size_t elements);
void exchanger_clear(struct exchanger *exchanger, float *at, size_t elements);
void exchanger_add(struct exchanger *exchanger, float *sum, const float *x, size_t elements);
/* out = a x + b y */
void exchanger_combine(struct exchanger *exchanger, float a, const float *x, float b,
                       const float *y, float *out, size_t elements);

/* Issues a call on the exchanger's stream. */
void issue_call(struct exchanger *exchanger, struct comm_call call);
/* Sends and receives fp32 within a group; peers are indices in it. */
void issue_send(struct exchanger *exchanger, struct group *group, int to, struct span from);
void issue_receive(struct exchanger *exchanger, struct group *group, int from, struct span to);
/* Sends `from` to one member and receives as many elements from another. */
void issue_pass(struct exchanger *exchanger, struct group *group, int to, const float *from,
                int source, struct span received);
/* Sends `from` to all ranks to which the gossip graph lets this member send. Data from the ranks
 * that send to it are stored in `received` one after the other. */
void issue_to_peers(struct exchanger *exchanger, struct group *group,
                    const struct mixing_peers *peers, const float *from, size_t elements);
void issue_all_reduce(struct exchanger *exchanger, struct group *group, struct span span);

/* Sums over a group, in place. For ring and servers the number of elements must be a multiple of
 * their parts. */
void ring_all_reduce(struct exchanger *exchanger, struct group *group, struct span span);
void tree_all_reduce(struct exchanger *exchanger, struct group *group, struct span span);
void servers_all_reduce(struct exchanger *exchanger, struct group *group, int num_servers,
                        struct span span);
/* out = the average of `own` and the neighbours' values. */
void peers_average(struct exchanger *exchanger, struct group *group, const float *own,
                   struct span out);

/* Runs one phase of a sum on `span`, and narrows or widens the span. */
void phase_run(struct exchanger *exchanger, const struct exchange_phase *phase, struct span *span);
struct group *phase_group(const struct exchanger *exchanger, const struct exchange_phase *phase);
/* Number of equal parts that the phase divides its elements into. */
int phase_parts(const struct exchange_phase *phase);

#endif
