/* exec/exchange/exchanger_part.h - the insides of an exchanger, for the methods of this folder. */
#ifndef EXEC_EXCHANGE_EXCHANGER_PART_H
#define EXEC_EXCHANGE_EXCHANGER_PART_H

#include "exec/exchange/exchanger.h"

#include "base/arena.h"

/* Elements of an array: all, or a part while it is scattered. */
struct span {
    float *at;
    size_t count;
};

/* One of so many equal parts. */
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
    struct exchange_phases phases; /* of this step */
    int step;
    bool ends_period;
    int since;                        /* steps since the last average of all, this one included */
    double first_loss, planned_bytes; /* first_loss: 0 while it is not known */
    float *received;                  /* from another rank, or from all neighbours; or NULL */
    float *memory;                    /* compressed: what is to be sent, and what is left of it */
    float *own, *sum;             /* EF21: what others take this rank's gradient for; all ranks' */
    char *messages;               /* of all ranks, one behind the other */
    size_t message_bytes;         /* of each */
    struct power_factors *powers; /* in the arena */
};

/* How methods are run that exchange the same, compressed in the same way: runners.c. */
struct exchange_runner {
    /* Device memory of the method; NULL: none. */
    bool (*open)(struct exchanger *exchanger, struct err *err);
    void (*sum)(struct exchanger *exchanger, float *gradients);
    void (*average)(struct exchanger *exchanger, const float *weights, float *out); /* or NULL */
    /* As exchanger_kept and exchange_keeps: NULL, and 0 arrays, where nothing is kept. */
    const char *keeps;
    int (*kept)(const struct exchanger *exchanger, struct kept *out);
    /* The memory that `open` takes, in elements. */
    double (*memory_elements)(const struct exchange *exchange, const struct exchange_load *load,
                              const struct exchange_ranks *ranks);
};
const struct exchange_runner *exchange_runner_of(const struct exchange *exchange);

/* --- what methods are made of ----------------------------------------------------------------- */

/* Device memory of so many floats, zeroed; NULL with err. */
float *exchanger_take(struct exchanger *exchanger, size_t elements, struct err *err);
/* Makes what messages of all ranks need, `bytes` each. */
bool exchanger_take_messages(struct exchanger *exchanger, double bytes, struct err *err);
void *exchanger_message(const struct exchanger *exchanger, int rank);
void exchanger_gather_messages(struct exchanger *exchanger); /* each rank's own to all */

void exchanger_copy(struct exchanger *exchanger, float *to, const float *from, size_t elements);
void exchanger_clear(struct exchanger *exchanger, float *at, size_t elements);
void exchanger_add(struct exchanger *exchanger, float *sum, const float *x, size_t elements);
/* out = a x + b y */
void exchanger_combine(struct exchanger *exchanger, float a, const float *x, float b,
                       const float *y, float *out, size_t elements);

/* On the exchanger's stream. */
void issue_call(struct exchanger *exchanger, struct comm_call call);
/* Calls of fp32 on a group. Peers are members of the group. */
void issue_send(struct exchanger *exchanger, struct group *group, int to, struct span from);
void issue_receive(struct exchanger *exchanger, struct group *group, int from, struct span to);
/* `from` to one member, as many elements from another. */
void issue_pass(struct exchanger *exchanger, struct group *group, int to, const float *from,
                int source, struct span received);
/* `from` to all that a member tells, and into `received` what it hears, one behind the other. */
void issue_to_peers(struct exchanger *exchanger, struct group *group,
                    const struct mixing_peers *peers, const float *from, size_t elements);
void issue_all_reduce(struct exchanger *exchanger, struct group *group, struct span span);

/* Sums over a group, in place. Ring and servers: the elements are a multiple of their parts. */
void ring_all_reduce(struct exchanger *exchanger, struct group *group, struct span span);
void tree_all_reduce(struct exchanger *exchanger, struct group *group, struct span span);
void servers_all_reduce(struct exchanger *exchanger, struct group *group, int num_servers,
                        struct span span);
/* out = the average of `own` and the neighbours'. */
void peers_average(struct exchanger *exchanger, struct group *group, const float *own,
                   struct span out);

/* One phase of a sum: of what `span` says, which it narrows or widens. */
void phase_run(struct exchanger *exchanger, const struct exchange_phase *phase, struct span *span);
struct group *phase_group(const struct exchanger *exchanger, const struct exchange_phase *phase);
/* Equal parts that the phase needs its elements in. */
int phase_parts(const struct exchange_phase *phase);

#endif
