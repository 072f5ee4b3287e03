#include "tests/sim/engine/random_step.h"

#include "tests/draw.h"

#include <stdlib.h>

void step_init(struct step *step, const char *generator, int p, int v, int m)
{
    *step = (struct step){ .generator = generator_find(generator), .shape = { p, v, m, 0 } };
    for (int c = 0; c < p * v; c++)
        step->chunks[c] =
            (struct chunk_cost){ .forward_s = 1.0 / v, .input_s = 1.0 / v, .weight_s = 1.0 / v };
    step->cost = (struct step_cost){ .chunks = step->chunks,
                                     .stages = step->stages,
                                     .boundaries = step->boundaries,
                                     .slowdowns = { 1, 1 },
                                     .messages_are_delays = true };
}

struct timeline *step_run(const struct step *step, struct arena *arena)
{
    struct err err = { 0 };
    struct schedule *schedule =
        schedule_new(step->generator, &step->shape, &step->lowering, arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    struct timeline *timeline = events_run(schedule, &step->cost, arena, &err);
    ck_assert_msg(timeline != NULL, "%s, %d stages x %d chunks, %d microbatches: %s: %s",
                  step->generator->name, step->shape.num_stages, step->shape.chunks_per_stage,
                  step->shape.num_microbatches, err.where, err.msg);
    return timeline;
}

double step_run_s(const struct step *step)
{
    struct arena arena = { 0 };
    double end_s = timeline_end_s(step_run(step, &arena));
    arena_release(&arena);
    return end_s;
}

void step_randomise(struct step *step)
{
    int g = rand() % num_generators;
    int p = 1 + rand() % MAX_STAGES;
    int v = 1 + rand() % 4;
    int m = 1 + rand() % (3 * p);
    struct schedule_shape shape = { p, v, m, 0 };
    struct err ignored = { 0 };
    if (!generators[g].accepts(&shape, &ignored)) {
        step_randomise(step);
        return;
    }
    step_init(step, generators[g].name, p, v, m);
    if (v > 1 && !placement_is_mirrored(step_placement(step)))
        step->cost.last_more_s = random_between(0, 1);
    double spread = rand() % 3 * 0.3;
    for (int c = 0; c < p * v; c++)
        step->chunks[c] = (struct chunk_cost){
            .forward_s = random_between(1 - spread, 1 + spread),
            .input_s = random_between(1 - spread, 1 + spread),
            .weight_s = random_between(1 - spread, 1 + spread),
            .pair_s = random_between(1, 3),
        };
    bool has_messages = rand() % 4;
    for (int s = 0; has_messages && s < p; s++)
        step->boundaries[s].message_s = random_between(0, 1.5);
}

static struct jitter random_jitter(void)
{
    return (struct jitter){ .seed = (uint64_t)rand(),
                            .chip_spread = random_between(0, 0.1),
                            .pass_spread = random_between(0, 0.1),
                            .wire_spread = { random_between(0, 0.3), random_between(0, 0.3) },
                            .num_gpus = 1024,
                            .stage_ranks = 128,
                            .pass_ranks = 1 + rand() % 8,
                            .data_members = 1 + rand() % 64,
                            .data_replicas = 1 + rand() % 64 };
}

void step_randomise_whole(struct step *step)
{
    step_randomise(step);
    step->lowering = (struct lowering){ .recompute = rand() % 2,
                                        .has_data_group = rand() % 2,
                                        .gather_updated = rand() % 2,
                                        .tied = rand() % 2 };
    for (int c = 0; c < step->shape.num_stages * step->shape.chunks_per_stage; c++)
        step->chunks[c].recompute_s = random_between(0, 1);
    for (int s = 0; s < step->shape.num_stages; s++)
        step->stages[s] = (struct stage_cost){ random_between(0, 2), random_between(0, 1),
                                               random_between(0, 1), random_between(0, 1), 0 };
    step->cost.messages_are_delays = rand() % 4 == 0;
    /* schedules in a V have split backwards */
    step->cost.blocking = rand() % 2 && !step->generator->rule;
    step->cost.reduces_last = rand() % 2;
    for (int s = 0; s < step->shape.num_stages; s++)
        step->boundaries[s].wire = rand() % 2 ? WIRE_NODE : WIRE_NETWORK;
    step->cost.data_wire = rand() % 2 ? WIRE_NODE : WIRE_NETWORK;
    step->cost.slowdowns.compute = random_between(1, 1.4);
    step->cost.slowdowns.comm = random_between(1, 1.4);
    step->cost.validates = rand() % 4 == 0;
    step->cost.draws = rand() % 3 == 0;
    step->cost.jitter = random_jitter();
}
