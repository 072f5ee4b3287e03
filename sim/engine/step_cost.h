/* sim/engine/step_cost.h - what each instruction of a step takes alone, and what overlaps.
 *
 * A value: evaluate_cost (simulate.h) fills it for a plan, tests by hand. */
#ifndef SIM_ENGINE_STEP_COST_H
#define SIM_ENGINE_STEP_COST_H

#include "sim/engine/jitter.h"
#include "sim/engine/progress.h"
#include "sim/schedule/schedule.h"

#include <stdbool.h>

/* Seconds of one chunk and microbatch. */
struct chunk_cost {
    double forward_s;
    double recompute_s; /* of RECOMPUTE, where the lists have it */
    double input_s;     /* BACKWARD_INPUT */
    double weight_s;    /* BACKWARD_WEIGHT; BACKWARD takes both */
};

/* Seconds of what a stage does once a step. */
struct stage_cost {
    double reduce_s; /* each REDUCE_GRAD */
    double gather_s; /* each GATHER_PARAM */
    double tied_s;   /* REDUCE_TIED */
    double optimizer_s;
    double mix_s; /* each MIX_PARAM */
};

/* What each message between two stages takes, and goes over. */
struct boundary {
    double message_s;
    enum wire wire;
};

struct step_cost {
    const struct chunk_cost *chunks; /* by chunk of the model */
    const struct stage_cost *stages;
    const struct boundary *boundaries; /* behind each stage (sim/schedule/placement.h) */
    enum wire data_wire;
    struct slowdowns slowdowns;
    /* As in the recurrence: a message needs no receive to start and no wire. */
    bool messages_are_delays;
    bool blocking;     /* no pass runs beside a send of its own stage */
    bool validates;    /* no stage waits for the norm of all: timeline_own_s is a step then */
    bool reduces_last; /* gradients are reduced after the last backward, not beside it */
    double overhead_s; /* of the host, once a step, after all else */
    /* That the mean step waits less for other data ranks than with all-reduce; drawn steps have
     * their own waiting. */
    double spared_s;
    bool draws; /* whether times stray from their means as `jitter` says */
    struct jitter jitter;
};

/* Seconds of each instruction of a stage, drawn where the step is; of a receive, those of its send.
 */
void step_alone_s(const struct step_cost *cost, const struct schedule *schedule, int stage,
                  double *alone_s);

/* What it goes over; of no transfer, any. */
enum wire instr_wire(const struct step_cost *cost, struct placement placement,
                     const struct instr *instr);

/* held[i]: one more instruction of the list that i waits for because it may not overlap, or
 * NO_INSTR. Room for list->count. */
void step_holds(const struct step_cost *cost, const struct instrs *list, int *held);

#endif
