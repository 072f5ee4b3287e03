/* sim/cost/dispatcher.h - time to send rows to the ranks of their experts and back. A row is a
 * token's activations for one of the experts that it is routed to.
 *
 * Libraries differ in their messages and rates. NCCL's all-to-all sends a row for every choice of a
 * token; DeepEP and hybrid-EP send a token once to each rank or node that needs it. The rates of
 * these two are published measurements; NCCL's follow from the group's links. */
#ifndef SIM_COST_DISPATCHER_H
#define SIM_COST_DISPATCHER_H

#include "models/routing.h"
#include "sim/collective/collective.h"

enum dispatcher_kind {
    DISPATCHER_ALL_TO_ALL,
    DISPATCHER_ALL_GATHER,
    DISPATCHER_DEEPEP,
    DISPATCHER_HYBRIDEP,
    NUM_DISPATCHERS
};

/* The data that one rank exchanges: all its rows on the way to the experts (dispatch), or the
 * experts' outputs on the way back (combine). */
struct dispatch {
    double row_bytes; /* bytes per row */
    double rows;      /* rows that the busiest rank exchanges: tokens x experts per token */
    struct expert_choice choice;
    bool is_combine;
    bool waits; /* the host must read the number of arriving rows before it can go on */
};

struct dispatcher {
    const char *name; /* such as "deepep" */
    const char *summary;
    const char *source;
    double (*cost_s)(const struct comm_group *group, const struct dispatch *dispatch);
    bool sends_tokens; /* sends each token itself, so it is not first copied once per expert */
    bool sorts;        /* rows arrive in the experts' order */
    int sms;           /* multiprocessors that a transfer takes from compute */
    double sync_s;     /* time until the host has read the counts of rows */
};
extern const struct dispatcher dispatchers[NUM_DISPATCHERS];
extern const char *const dispatcher_names[NUM_DISPATCHERS + 1];

double dispatch_s(enum dispatcher_kind kind, const struct comm_group *group,
                  const struct dispatch *dispatch);

#endif
