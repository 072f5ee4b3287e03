/* tests/sim/engine/random_step.h - a pipeline schedule and its costs, which may be random (by
 * rand()), for the event engine. */
#ifndef TESTS_SIM_ENGINE_RANDOM_STEP_H
#define TESTS_SIM_ENGINE_RANDOM_STEP_H

#include "sim/engine/events.h"

enum { MAX_STAGES = 8, MAX_CHUNKS = 32 };

struct step {
    const struct generator *generator;
    struct schedule_shape shape;
    struct lowering lowering;
    struct chunk_cost chunks[MAX_CHUNKS];
    struct stage_cost stages[MAX_STAGES];
    struct boundary boundaries[MAX_STAGES];
    struct step_cost cost;
};

static inline struct placement step_placement(const struct step *step)
{
    return (struct placement){ step->shape.num_stages, step->shape.chunks_per_stage,
                               step->generator->rule };
}

/* The struct must not be copied, because `cost` points into it. */
void step_init(struct step *step, const char *generator, int p, int v, int m);

/* Draws a schedule generator and a shape. Messages are pure delays, and there is no other traffic.
 */
void step_randomise(struct step *step);
/* Draws a step as the function above does, and everything that lowering can add (recompute,
 * reductions, ...), with random durations.
 */
void step_randomise_whole(struct step *step);

/* The timeline lives in the arena. Fails the test when the step cannot be run. */
struct timeline *step_run(const struct step *step, struct arena *arena);
double step_run_s(const struct step *step);

#endif
