/* Tests the number of microbatches in flight, and the memory that they keep. */
#include "tests/testing.h"

#include "tests/sim/planned.h"

#include <math.h>
#include <stdio.h>

enum { MAX_STAGES = 8, MAX_VPP = 4 };

/* Calls `claim` for every generator, with every shape of 1 to 8 stages (pp), 1 to 4 chunks and pp
 * to 5 pp microbatches that the generator accepts. */
static int each_shape(void (*claim)(const struct generator *, const struct schedule_shape *))
{
    int claimed = 0;
    for (int g = 0; g < num_generators; g++)
        for (int p = 1; p <= MAX_STAGES; p++)
            for (int v = 1; v <= MAX_VPP; v++)
                for (int m = p; m <= 5 * p; m += p > 2 ? p / 2 : 1) {
                    struct schedule_shape shape = { p, v, m, 0 };
                    struct err ignored = { 0 };
                    if (!generators[g].accepts(&shape, &ignored))
                        continue;
                    claim(&generators[g], &shape);
                    claimed++;
                }
    return claimed;
}

/* The state of a walk over the passes of a stage; held[] is the number of microbatches that each of
 * its chunks holds. */
struct walk {
    const struct schedule_shape *shape;
    const struct instr *next, *end;
    int held[MAX_VPP];
};

static bool walk_on(struct walk *walk)
{
    if (walk->next == walk->end)
        return false;
    int local = walk->next->chunk / walk->shape->num_stages;
    walk->held[local] += walk->next->op == INSTR_FORWARD;
    walk->held[local] -= instr_ends_backward(walk->next->op);
    walk->next++;
    return true;
}

static double weigh(const struct walk *walk, const double *weight)
{
    double sum = 0;
    for (int local = 0; local < walk->shape->chunks_per_stage; local++)
        sum += walk->held[local] * weight[local];
    return sum;
}

/* The state when the sum of held microbatches, weighted by weight[chunk], first reaches its
 * maximum. */
static struct walk walk_to_peak(const struct generator *generator,
                                const struct schedule_shape *shape, int stage, const double *weight)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct schedule *schedule = schedule_compute_order(generator, shape, &arena, &err);
    ck_assert_ptr_nonnull(schedule);
    const struct instrs *list = &schedule->ranks[stage];
    struct walk walk = { .shape = shape, .next = list->at, .end = list->at + list->count };
    struct walk peak = walk;
    while (walk_on(&walk))
        if (weigh(&walk, weight) > weigh(&peak, weight))
            peak = walk;
    arena_release(&arena);
    return peak;
}

static void check_chunks_in_flight(const struct generator *generator,
                                   const struct schedule_shape *shape)
{
    const double alike[MAX_VPP] = { 1, 1, 1, 1 };
    for (int stage = 0; stage < shape->num_stages; stage++) {
        struct walk peak = walk_to_peak(generator, shape, stage, alike);
        for (int local = 0; local < shape->chunks_per_stage; local++)
            ck_assert_msg(
                chunk_in_flight(generator, shape, stage, local) == peak.held[local],
                "%s p %d v %d m %d, stage %d, chunk %d: %d microbatches in flight, expected %d",
                generator->name, shape->num_stages, shape->chunks_per_stage,
                shape->num_microbatches, stage, local,
                chunk_in_flight(generator, shape, stage, local), peak.held[local]);
    }
}

/* The memory model does not compute a stage that repeats the stage before it, so no stage may need
 * more microbatches in flight than the stage before it. */
static void check_falls_by_stage(const struct generator *generator,
                                 const struct schedule_shape *shape)
{
    for (int stage = 1; stage < shape->num_stages && !generator_splits(generator); stage++)
        for (int round = 0; round < shape->chunks_per_stage; round++)
            ck_assert_int_le(chunk_in_flight(generator, shape, stage, round),
                             chunk_in_flight(generator, shape, stage - 1, round));
}

START_TEST(no_stage_holds_more_microbatches_of_a_round_than_the_one_before)
{
    ck_assert_int_gt(each_shape(check_falls_by_stage), 100);
}
END_TEST

START_TEST(chunks_in_flight_equal_the_instruction_list_at_its_peak)
{
    ck_assert_int_gt(each_shape(check_chunks_in_flight), 100);
}
END_TEST

/* Korthikanti et al. 2022 state that the first stage of an interleaved schedule with p stages of v
 * chunks holds the activations of p (1 + (p-1)/(pv)) stages, which are pv + p - 1 chunks. */
START_TEST(the_first_interleaved_stage_holds_pv_plus_p_minus_1_chunks)
{
    const struct generator *interleaved = generator_find("interleaved");
    for (int p = 2; p <= 8; p++)
        for (int v = 2; v <= 4; v++) {
            struct schedule_shape shape = { p, v, 4 * p, 0 };
            int held = 0;
            for (int local = 0; local < v; local++)
                held += chunk_in_flight(interleaved, &shape, 0, local);
            ck_assert_int_eq(held, p * v + p - 1);
        }
}
END_TEST

/* Returns two numbers of bytes for one microbatch: all activations that a stage keeps, and the
 * operands of its weight gradients. */
static void weigh_stage(int stage, int layers, double *whole_bytes, double *waiting_bytes)
{
    const struct pieces *pieces = &planned.pieces;
    *whole_bytes = layers * pieces->at[0].saved_bytes;
    *waiting_bytes = layers * pieces->at[0].waiting_bytes;
    if (stage == 0) {
        *whole_bytes += pieces->at[PIECE_EMBEDDING].saved_bytes;
        *waiting_bytes += pieces->at[PIECE_EMBEDDING].waiting_bytes;
    }
    if (stage == planned.plan.pp - 1) {
        *whole_bytes += pieces->at[PIECE_HEAD].saved_bytes;
        *waiting_bytes += pieces->at[PIECE_HEAD].waiting_bytes;
    }
}

/* If the operands of weight gradients need more memory than the saved activations, a stage whose
 * instruction list ends early may hold the operands of one more microbatch. The last stage is such
 * a case, as the head's output gradient is as large as the logits. */
static void check_split_activations(const struct generator *generator,
                                    const struct schedule_shape *shape)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct schedule *schedule = schedule_compute_order(generator, shape, &arena, &err);
    for (int stage = 0; stage < shape->num_stages; stage++) {
        double whole_bytes, waiting_bytes;
        weigh_stage(stage, 2, &whole_bytes, &waiting_bytes);
        double excess_bytes = fmax(0, waiting_bytes - whole_bytes);
        double walked_bytes = schedule_held_bytes(schedule, stage, whole_bytes, waiting_bytes);
        double closed_bytes = planned_memory(stage).activations_bytes;
        bool is_long = shape->num_microbatches >= 3 * shape->num_stages;
        ck_assert_double_le(closed_bytes, walked_bytes * (1 + 1e-12));
        ck_assert_double_ge(closed_bytes,
                            walked_bytes * (1 - 1e-12) - (is_long ? 0 : excess_bytes));
    }
    arena_release(&arena);
}

/* Returns two numbers of bytes for one microbatch of each chunk of a stage: all activations that
 * the chunk keeps, and the operands of its weight gradients. */
static void weigh_chunks(int stage, double *whole_bytes, double *waiting_bytes)
{
    struct placement placement = plan_placement(&planned.plan);
    const struct pieces *pieces = &planned.pieces;
    int last = planned.plan.vpp - 1;
    for (int local = 0; local <= last; local++) {
        whole_bytes[local] = 2 * pieces->at[0].saved_bytes;
        waiting_bytes[local] = 2 * pieces->at[0].waiting_bytes;
    }
    if (stage == placement_embedding_stage(placement)) {
        whole_bytes[0] += pieces->at[PIECE_EMBEDDING].saved_bytes;
        waiting_bytes[0] += pieces->at[PIECE_EMBEDDING].waiting_bytes;
    }
    if (stage == placement_head_stage(placement)) {
        whole_bytes[last] += pieces->at[PIECE_HEAD].saved_bytes;
        waiting_bytes[last] += pieces->at[PIECE_HEAD].waiting_bytes;
    }
}

/* Computes the maximum of bytes that a stage's list holds. A microbatch of a local chunk holds
 * weight[] from its forward to its input gradients, then waiting[] until its weight gradients. */
static double most_held_bytes(const struct generator *generator, const struct schedule_shape *shape,
                              int stage, const double *weight, const double *waiting)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct schedule *schedule = schedule_compute_order(generator, shape, &arena, &err);
    const struct instrs *list = &schedule->ranks[stage];
    double held_bytes = 0, most_bytes = 0;
    for (size_t i = 0; i < (size_t)list->count; i++) {
        int local = list->at[i].chunk / shape->num_stages;
        enum opcode op = list->at[i].op;
        held_bytes += op == INSTR_FORWARD          ? weight[local]
                      : op == INSTR_BACKWARD       ? -weight[local]
                      : op == INSTR_BACKWARD_INPUT ? waiting[local] - weight[local]
                                                   : -waiting[local];
        most_bytes = fmax(most_bytes, held_bytes);
    }
    arena_release(&arena);
    return most_bytes;
}

/* Compares the closed forms with a walk over the instruction list. Embedding and head have separate
 * weights. In a V schedule a weight gradient follows its input gradient at once, and one microbatch
 * waits for its weight gradient if the gradient's operands need more memory than the saved
 * activations. For schedules that mix overlapped pairs with split backwards there is no closed
 * form; the prediction uses the walk. When an interleaved first stage first reaches its peak, its
 * first chunk may hold one microbatch less than later; if groups have pp microbatches, the closed
 * form does not count the embedding of this microbatch. */
static void check_activations(const struct generator *generator, const struct schedule_shape *shape)
{
    struct plan *plan = &planned.plan;
    plan->pp = shape->num_stages;
    plan->vpp = shape->chunks_per_stage;
    plan_set_schedule(plan, generator->name);
    planned.model.layers = 2 * shape->num_stages * shape->chunks_per_stage;
    planned.model.batch = shape->num_microbatches;
    if (generator_splits(generator) && !generator->rule) {
        check_split_activations(generator, shape);
        return;
    }
    for (int stage = 0; stage < shape->num_stages; stage++) {
        double weight[MAX_VPP], waiting[MAX_VPP], next_bytes = 0;
        weigh_chunks(stage, weight, waiting);
        for (int local = 0; local < plan->vpp && generator->rule; local++)
            next_bytes = fmax(next_bytes, waiting[local] - weight[local]);
        struct walk peak = walk_to_peak(generator, shape, stage, weight);
        double walked_bytes = weigh(&peak, weight) + next_bytes;
        if (generator->pairs)
            walked_bytes = most_held_bytes(generator, shape, stage, weight, waiting);
        double closed_bytes = planned_memory(stage).activations_bytes;
        int short_of = generator->rule || interleaved_group(shape) == shape->num_stages;
        double later_bytes =
            stage == 0 ? short_of * planned.pieces.at[PIECE_EMBEDDING].saved_bytes : 0;
        ck_assert_double_le(closed_bytes,
                            walked_bytes * (1 + 1e-12) + (generator->rule ? later_bytes : 0));
        ck_assert_double_ge(closed_bytes, walked_bytes * (1 - 1e-12) -
                                              (shape->chunks_per_stage > 1 ? later_bytes : 0));
    }
}

START_TEST(activation_bytes_equal_the_maximum_over_the_instruction_list)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("mb1");
    each_shape(check_activations);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("in flight");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, planned_release);
    tcase_add_test(tc, chunks_in_flight_equal_the_instruction_list_at_its_peak);
    tcase_add_test(tc, no_stage_holds_more_microbatches_of_a_round_than_the_one_before);
    tcase_add_test(tc, the_first_interleaved_stage_holds_pv_plus_p_minus_1_chunks);
    tcase_add_test(tc, activation_bytes_equal_the_maximum_over_the_instruction_list);
    Suite *s = suite_create("sim/memory/memory: in flight");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
