/* sim/memory/memory_input.h - everything that a plan's memory depends on. */
#ifndef SIM_MEMORY_MEMORY_INPUT_H
#define SIM_MEMORY_MEMORY_INPUT_H

#include "sim/cost/piece.h"
#include "sim/schedule/schedule.h"

struct memory_input {
    const struct system *system;
    const struct model *model;
    const struct plan *plan;
    const struct pieces *pieces;
    const struct generator *generator;
    int num_microbatches;
    /* [stage]: pieces (layers, embedding, head), with the modules that selective recompute repeats
     * on the stage; NULL: `pieces` for all stages */
    const struct pieces *const *stage_pieces;
};

#endif
