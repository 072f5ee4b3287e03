/* sim/engine/step_cost.h - the time of each instruction of a step when it runs alone, and what may
 * overlap.
 *
 * evaluate_cost (simulate.h) fills struct step_cost for a plan; tests fill it by hand. */
#ifndef SIM_ENGINE_STEP_COST_H
#define SIM_ENGINE_STEP_COST_H

#include "sim/engine/jitter.h"
#include "sim/engine/progress.h"
#include "sim/schedule/schedule.h"

#include <stdbool.h>

/* Seconds of one chunk and microbatch. */
struct chunk_cost {
    double forward_s;
    double recompute_s; /* RECOMPUTE, when the lists have it */
    double input_s;     /* BACKWARD_INPUT */
    double weight_s;    /* BACKWARD_WEIGHT; BACKWARD takes both */
    double pair_s;      /* the BACKWARD of a pair: both its passes, without RECOMPUTE */
};

/* Seconds of what a stage does once per step, or once per step and chunk (each ...). */
struct stage_cost {
    double reduce_s; /* each REDUCE_GRAD */
    double gather_s; /* each GATHER_PARAM */
    double tied_s;   /* REDUCE_TIED */
    double optimizer_s;
    double mix_s; /* each MIX_PARAM */
};

/* Time of each message between two stages, and the sort of link that it takes. */
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
    /* As in the recurrence of pipeline.h: a message is a fixed delay that needs neither a posted
     * receive nor a free link. */
    bool messages_are_delays;
    bool blocking;     /* sends block: no pass runs beside a send of its own stage */
    bool validates;    /* no stage waits for the global norm: a step is then timeline_own_s */
    bool reduces_last; /* gradients are reduced after the last backward, not beside it */
    double overhead_s; /* of the host, once per step, at the end */
    /* How much less the mean step waits for other data ranks than with all-reduce; drawn steps draw
     * their own waits. */
    double spared_s;
    bool draws; /* whether `jitter` draws deviations from the mean times */
    struct jitter jitter;
};

/* Seconds of each instruction of a stage, with its drawn deviation if any; a receive takes as long
 * as its send. */
void step_alone_s(const struct step_cost *cost, const struct schedule *schedule, int stage,
                  double *alone_s);

/* The sort of link that a transfer takes; any value for other instructions. */
enum wire instr_wire(const struct step_cost *cost, struct placement placement,
                     const struct instr *instr);

/* held[i] is a further instruction of the list that instruction i must wait for, because the two
 * may not overlap; NO_INSTR: none. `held` has room for list->count. */
void step_holds(const struct step_cost *cost, const struct instrs *list, int *held);

#endif
