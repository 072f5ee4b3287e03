/* sim/engine/progress.h - the activities that run at one moment, their rates, and which of them
 * ends next.
 *
 * Rates are constant from one event to the next. A stage's compute and its transfers slow each
 * other while both run; transfers over the same links share them max-min fairly. Activities that
 * end at the same time are ordered by slot, so no answer depends on addresses or on the order of
 * arrival. */
#ifndef SIM_ENGINE_PROGRESS_H
#define SIM_ENGINE_PROGRESS_H

#include "base/arena.h"

/* The links inside a node, and the network between nodes. */
enum wire { WIRE_NODE, WIRE_NETWORK, NUM_WIRES };

enum activity_kind {
    ACTIVITY_COMPUTE, /* on `rank` */
    ACTIVITY_MESSAGE, /* from `rank` to `peer` */
    /* in both directions, with `peer`, or with a group of data ranks (peer -1) */
    ACTIVITY_EXCHANGE,
    ACTIVITY_DELAY /* a fixed time; it neither slows others nor is slowed */
};

struct activity {
    enum activity_kind kind;
    int rank, peer;
    enum wire wire;
    double alone_s; /* seconds when nothing else runs */
};

/* Factors by which compute and communication slow each other; 1: they do not. */
struct slowdowns {
    double compute, comm;
};

struct progress;

/* The result is in the arena. A slot holds one activity at a time; the slots of a rank begin at
 * slots_per_rank x rank. */
struct progress *progress_new(int num_ranks, int slots_per_rank, struct slowdowns slowdowns,
                              struct arena *arena);

/* The time of the last event; 0 before the first. */
double progress_now_s(const struct progress *progress);

/* The slot's activity. Callers fill it in place before progress_start, as copying activities would
 * take a tenth of the simulator's time. */
struct activity *progress_slot(struct progress *progress, int slot);
void progress_start(struct progress *progress, int slot);

/* Advances to the next end of an activity and returns its slot, which is then free; -1 if nothing
 * runs. */
int progress_next(struct progress *progress);

#endif
