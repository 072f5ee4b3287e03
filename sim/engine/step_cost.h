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
    double recompute_s; /* RECOMPUTE, if the lists have it */
    double input_s;     /* BACKWARD_INPUT */
    double weight_s;    /* BACKWARD_WEIGHT; a whole BACKWARD takes input_s + weight_s */
    double pair_s;      /* the BACKWARD of a pair: time of both passes, without RECOMPUTE */
};

/* Seconds of the instructions that a stage runs once per step or, if the comment says "each", once
 * per chunk. */
struct stage_cost {
    double reduce_s; /* each REDUCE_GRAD */
    double gather_s; /* each GATHER_PARAM */
    double tied_s;   /* REDUCE_TIED */
    double optimizer_s;
    double mix_s; /* each MIX_PARAM */
};

/* Time of each message between two stages, and the kind of link that it uses. */
struct boundary {
    double message_s;
    enum wire wire;
};

struct step_cost {
    const struct chunk_cost *chunks; /* by chunk of the model */
    const struct stage_cost *stages;
    /* by stage: the boundary to the next stage (sim/schedule/placement.h) */
    const struct boundary *boundaries;
    double
        /* how much longer messages between the last two chunks take than others over their
         * boundary */
        last_more_s;
    enum wire data_wire;
    struct slowdowns slowdowns;
    /* Whether a message is a fixed delay, which needs neither a posted receive nor a free link, as
     * in the recurrence of pipeline.h. */
    bool messages_are_delays;
    bool blocking;     /* whether sends block, so that no pass overlaps a send of its own stage */
    bool validates;    /* whether no stage waits for the global norm; the step time is then
                          timeline_own_s */
    bool reduces_last; /* whether gradients are reduced after the last backward and do not overlap
                          it */
    double overhead_s; /* host overhead, once per step, at the end */
    /* How much less time a mean step waits for other data ranks than it would with all-reduce.
     * Steps with random draws have their own waits instead. */
    double spared_s;
    bool draws; /* whether times deviate randomly from their means, by `jitter` */
    struct jitter jitter;
};

/* Seconds of each instruction of a stage, with random deviations if cost->draws; a receive
 * takes as long as its send. */
void step_alone_s(const struct step_cost *cost, const struct schedule *schedule, int stage,
                  double *alone_s);

/* The kind of link that a transfer uses; arbitrary for other instructions. */
enum wire instr_wire(const struct step_cost *cost, struct placement placement,
                     const struct instr *instr);

/* held[i] becomes a further instruction of the list for which instruction i must wait, because the
 * two may not overlap; NO_INSTR if there is none. `held` has room for list->count. */
void step_holds(const struct step_cost *cost, const struct instrs *list, int *held);

#endif
