/* sim/cost/dispatcher.h - how rows travel to the ranks of their experts and back.
 *
 * Libraries differ in their messages and rates. NCCL's all-to-all sends a row for every choice of a
 * token; others send a token once to each rank or node that needs it. Their rates are published
 * measurements; NCCL's follow from the group's wires. */
#ifndef SIM_COST_DISPATCHER_H
#define SIM_COST_DISPATCHER_H

#include "models/routing.h"
#include "sim/cost/collective.h"

enum dispatcher_kind {
    DISPATCHER_ALL_TO_ALL,
    DISPATCHER_ALL_GATHER,
    DISPATCHER_DEEPEP,
    DISPATCHER_HYBRIDEP,
    NUM_DISPATCHERS
};

/* A message of one rank: all its rows, or their sums on the way back. */
struct dispatch {
    double row_bytes; /* of one choice of one token */
    double rows;      /* as many as the fullest rank exchanges */
    struct expert_choice choice;
    bool is_combine;
    bool waits; /* the host must read how many rows come before it can go on */
};

struct dispatcher {
    const char *name; /* "deepep" */
    const char *summary;
    const char *source;
    double (*cost_s)(const struct comm_group *group, const struct dispatch *dispatch);
    bool sends_tokens; /* no copy of a token for each choice is made before */
    bool sorts;        /* rows arrive in the experts' order */
    int sms;           /* multiprocessors that a transfer takes from compute */
    double sync_s;     /* until the host has read the counts of rows */
};
extern const struct dispatcher dispatchers[NUM_DISPATCHERS];
extern const char *const dispatcher_names[NUM_DISPATCHERS + 1];

double dispatch_s(enum dispatcher_kind kind, const struct comm_group *group,
                  const struct dispatch *dispatch);

#endif
