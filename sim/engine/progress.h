/* sim/engine/progress.h - what runs at one moment, how fast, and what ends next.
 *
 * Rates hold from one event to the next. A stage's compute and its transfers slow each other while
 * both run; transfers over the same links share them max-min fairly. Activities that end at the
 * same time are ordered by slot, so no answer depends on addresses or on the order of arrival. */
#ifndef SIM_ENGINE_PROGRESS_H
#define SIM_ENGINE_PROGRESS_H

#include "base/arena.h"

/* The links inside a node, and the network between nodes. */
enum wire { WIRE_NODE, WIRE_NETWORK, NUM_WIRES };

enum activity_kind {
    ACTIVITY_COMPUTE,  /* on `rank` */
    ACTIVITY_MESSAGE,  /* from `rank` to `peer` */
    ACTIVITY_EXCHANGE, /* both ways, with `peer`, or with a group outside the pipeline (peer -1) */
    ACTIVITY_DELAY     /* a fixed time: neither slows nor is slowed */
};

struct activity {
    enum activity_kind kind;
    int rank, peer;
    enum wire wire;
    double alone_s; /* seconds when nothing else runs */
};

/* Factors by which compute and communication slow each other. 1: no contention. */
struct slowdowns {
    double compute, comm;
};

struct progress;

/* In the arena. A slot holds one activity at a time; a rank's slots begin at slots_per_rank x
 * rank. */
struct progress *progress_new(int num_ranks, int slots_per_rank, struct slowdowns slowdowns,
                              struct arena *arena);

/* The time of the last event; 0 before the first. */
double progress_now_s(const struct progress *progress);

/* The slot's activity, to be filled in place before it starts: copying would cost a tenth of the
 * run time. */
struct activity *progress_slot(struct progress *progress, int slot);
void progress_start(struct progress *progress, int slot);

/* Advances to the next end and returns its slot, which is then free; -1 when nothing runs. */
int progress_next(struct progress *progress);

#endif
