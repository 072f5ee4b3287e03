/* Tests schedules with random shapes. The instruction list must pass the check and train like a
 * single rank, and its simulated bubble must equal the closed form. */
#include "tests/draw.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include "sim/engine/events.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STAGES = 6, MOST_CHUNKS = 18, RUNS = TURNS(27) };

/* The times are those of one microbatch on a whole stage, in seconds. */
struct passes {
    double forward_s, input_s, weight_s;
};

/* --- closed forms ------------------------------------------------------------------------- */

/* A formula of the bubble, i.e. of a step's time minus the passes of one stage, without message
 * times. The formula is valid for at least `least` microbatches. f, b and w are the times of
 * forward, input gradients and weight gradients. */
struct closed_form {
    const char *name;
    double (*bubble_s)(const struct schedule_shape *shape, const struct passes *passes);
    int (*least)(int num_stages);
};

static double all_s(const struct passes *passes)
{
    return passes->forward_s + passes->input_s + passes->weight_s;
}

/* The naive schedule: each microbatch passes through all stages alone. */
static double naive_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return shape->num_microbatches * (shape->num_stages - 1) * all_s(passes);
}

/* Narayanan et al. 2021, section 2.2, give (p - 1)(f + b), divided by the number of chunks of a
 * stage; p is the number of stages, and f, b and w are the times of forward, input gradients and
 * weight gradients. */
static double flush_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return (shape->num_stages - 1) * all_s(passes) / shape->chunks_per_stage;
}

/* Qi et al. 2024, table 2, give (p - 1)(f + b - w), if w is the shortest of the three. */
static double zb_h1_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return (shape->num_stages - 1) * (passes->forward_s + passes->input_s - passes->weight_s);
}

/* Qi et al. 2024, section 2.3: no stage waits if all passes take equally long, and stage s begins s
 * forwards late. */
static double zb_h2_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return (shape->num_stages - 1) * passes->forward_s;
}

/* Qi et al. 2024, section 6: the bubble of a V schedule, whose chunks take half the time of a
 * stage. */
static double v_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return (shape->num_stages - 1) * passes->forward_s / shape->chunks_per_stage;
}

/* DualPipe's README gives (pp/2 - 1)(F&B + B - 3W), where a pair F&B takes as long as its two
 * passes. Here it is applied to the stages of a V, whose chunks are half a stage long. */
static double pairs_s(int num_stages, const struct passes *passes)
{
    double whole_s = passes->input_s + passes->weight_s;
    return (num_stages - 1) * (all_s(passes) + whole_s - 3 * passes->weight_s) / 2;
}

static double dualpipev_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return pairs_s(shape->num_stages, passes);
}

static double dualpipe_s(const struct schedule_shape *shape, const struct passes *passes)
{
    return pairs_s(shape->num_stages / 2, passes);
}

static int one(int num_stages)
{
    (void)num_stages;
    return 1;
}

static int as_many(int num_stages)
{
    return num_stages;
}

static int twice_as_many(int num_stages)
{
    return 2 * num_stages - 1;
}

static const struct closed_form closed_forms[] = {
    { "naive", naive_s, one },       { "gpipe", flush_s, one },
    { "1f1b", flush_s, one },        { "interleaved", flush_s, one },
    { "zb-h1", zb_h1_s, as_many },   { "zb-h2", zb_h2_s, twice_as_many },
    { "zb-v", v_s, twice_as_many },  { "dualpipev", dualpipev_s, one },
    { "dualpipe", dualpipe_s, one },
};

static const struct closed_form *closed_form_find(const char *name)
{
    for (int i = 0; i < LENGTH(closed_forms); i++)
        if (strcmp(closed_forms[i].name, name) == 0)
            return &closed_forms[i];
    ck_abort_msg("no closed form is known for %s", name);
}

/* --- shapes ------------------------------------------------------------------------------- */

static struct schedule_shape draw_shape(const struct generator *generator, struct random *rng)
{
    struct err ignored = { 0 };
    struct schedule_shape shape;
    do
        shape = (struct schedule_shape){ .num_stages = within(rng, 1, MOST_STAGES),
                                         .chunks_per_stage = within(rng, 1, 3),
                                         .num_microbatches = within(rng, 1, 14) };
    while (!generator->accepts(&shape, &ignored));
    return shape;
}

/* Random pass times. A weight-gradient pass takes no longer than another pass; for ZB-H2 and V
 * schedules all passes take equally long. */
static struct passes draw_passes(const struct generator *generator, struct random *rng)
{
    bool is_even = strcmp(generator->name, "zb-h2") == 0 || generator->rule;
    double weight_s = between(rng, 0.5, 1);
    return (struct passes){ .forward_s = is_even ? weight_s : between(rng, 1, 2),
                            .input_s = is_even ? weight_s : between(rng, 1, 1.5),
                            .weight_s = weight_s };
}

/* --- simulated ---------------------------------------------------------------------------- */

static double simulated_s(const struct schedule *schedule, const struct passes *passes)
{
    struct chunk_cost chunks[MOST_CHUNKS];
    struct stage_cost stages[MOST_STAGES] = { { 0 } };
    struct boundary boundaries[MOST_STAGES] = { { 0 } };
    struct step_cost cost = { .chunks = chunks,
                              .stages = stages,
                              .boundaries = boundaries,
                              .slowdowns = { 1, 1 },
                              .messages_are_delays = true };
    int chunks_per_stage = schedule->shape.chunks_per_stage;
    for (int c = 0; c < schedule->shape.num_stages * chunks_per_stage; c++)
        chunks[c] = (struct chunk_cost){ .forward_s = passes->forward_s / chunks_per_stage,
                                         .input_s = passes->input_s / chunks_per_stage,
                                         .weight_s = passes->weight_s / chunks_per_stage,
                                         .pair_s = all_s(passes) / chunks_per_stage };
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct timeline *timeline = events_run(schedule, &cost, &arena, &err);
    ck_assert_msg(timeline != NULL, "%s: %s", err.where, err.msg);
    double end_s = timeline_end_s(timeline);
    arena_release(&arena);
    return end_s;
}

static void check_bubble(const struct generator *generator, const struct schedule *schedule,
                         struct random *rng)
{
    const struct schedule_shape *shape = &schedule->shape;
    const struct closed_form *form = closed_form_find(generator->name);
    struct passes passes = draw_passes(generator, rng);
    if (shape->num_microbatches < form->least(shape->num_stages))
        return;
    double bubble_s = simulated_s(schedule, &passes) - shape->num_microbatches * all_s(&passes);
    double expected_s = form->bubble_s(shape, &passes);
    ck_assert_msg(fabs(bubble_s - expected_s) < 1e-9 * (1 + shape->num_microbatches),
                  "%s p%d v%d m%d f%g b%g w%g: a bubble of %.12g s, not %.12g", generator->name,
                  shape->num_stages, shape->chunks_per_stage, shape->num_microbatches,
                  passes.forward_s, passes.input_s, passes.weight_s, bubble_s, expected_s);
}

/* --- run ---------------------------------------------------------------------------------- */

/* A model with one layer per chunk. */
static struct model model_of(const struct schedule_shape *shape, struct random *rng)
{
    struct model model = within(rng, 0, 1) ? parity_llama() : parity_gpt();
    model.layers = shape->num_stages * shape->chunks_per_stage;
    model.batch = shape->num_microbatches;
    model.hidden = 16;
    model.head_dim = 4;
    model.ffn = 32;
    model.vocab = 50;
    model.seq = 8;
    if (model.max_positions > 0)
        model.max_positions = 8;
    return model;
}

static void check_run(const struct generator *generator, const struct schedule_shape *shape,
                      struct random *rng)
{
    struct model model = model_of(shape, rng);
    struct parity_run run = { .steps = 2,
                              .optimizer = OPTIMIZER_SGD,
                              .rate = 0.3F,
                              .arena_bytes = 1 << 20,
                              .seed = random_bits(rng) };
    struct parity_result alone, many;
    bool is_refused =
        generator->rule && (generator->rule->is_mirrored || /* refused by run_supported */
                            shape->num_microbatches < shape->num_stages); /* excluded by a rule */
    if (is_refused)
        return;
    char layout[80];
    snprintf(layout, sizeof layout, "pp%d vpp%d mb1 schedule=%s", shape->num_stages,
             shape->chunks_per_stage, generator->name);
    parity_run(&model, "mb1", &run, &alone);
    parity_run(&model, layout, &run, &many);
    struct parity_verdict verdict = parity_compare(&run, &alone, &many);
    ck_assert_msg(verdict.agrees, "%s, %d microbatches: %s", layout, shape->num_microbatches,
                  verdict.difference);
    parity_release(&alone);
    parity_release(&many);
}

START_TEST(random_schedules_pass_the_check_train_and_have_the_closed_form_bubble)
{
    struct random rng = random_new(told_seed(), 0);
    for (int i = 0; i < RUNS; i++) {
        const struct generator *generator = &generators[i % num_generators];
        struct schedule_shape shape = draw_shape(generator, &rng);
        struct lowering lowering = { 0 };
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct schedule *schedule = schedule_new(generator, &shape, &lowering, &arena, &err);
        ck_assert_msg(schedule && schedule_check(schedule, &err), "%s p%d v%d m%d: %s: %s",
                      generator->name, shape.num_stages, shape.chunks_per_stage,
                      shape.num_microbatches, err.where, err.msg);
        check_bubble(generator, schedule, &rng);
        check_run(generator, &shape, &rng);
        arena_release(&arena);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("schedules");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, random_schedules_pass_the_check_train_and_have_the_closed_form_bubble);
    Suite *s = suite_create("exec/random_schedules");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
