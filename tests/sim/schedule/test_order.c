#include "tests/testing.h"

#include "sim/engine/order.h"

#include <stdlib.h>
#include <string.h>

/* Calls `claim`, which checks an invariant, for every schedule generator and for every shape of up
 * to 8 stages, 4 chunks and 4 pp microbatches that it accepts. */
static void each_order(void (*claim)(const struct generator *, const struct order *))
{
    int claimed = 0, shapes = 0;
    for (int g = 0; g < num_generators; g++)
        for (int p = 1; p <= 8; p++)
            for (int v = 1; v <= 4; v++)
                for (int m = 1; m <= 4 * p; m++) {
                    if (is_spared(shapes++, 3))
                        continue;
                    struct arena arena = { 0 };
                    struct err ignored = { 0 };
                    struct schedule_shape shape = { p, v, m, 0 };
                    if (generators[g].accepts(&shape, &ignored)) {
                        claim(&generators[g], order_new(&generators[g], &shape, &arena));
                        claimed++;
                    }
                    arena_release(&arena);
                }
    ck_assert_int_gt(claimed, 100 / SPARSE);
}

static int chunks(const struct order *order)
{
    return order->shape.num_stages * order->shape.chunks_per_stage;
}

/* The pass, chunk and microbatch of a slot (one step of a stage's order). A slot that holds a pair
 * of passes does not name the chunk of the forward. */
struct seen {
    enum chunk_pass pass;
    int chunk;
};

static struct seen seen_at(const struct order *order, int op)
{
    int slot = order->ops[op].slot, whole = order_whole_slot(&order->shape, 0);
    if (slot == order_empty_slot(&order->shape))
        return (struct seen){ CHUNK_FORWARD, -1 };
    if (slot >= whole)
        return (struct seen){ CHUNK_BACKWARD, (slot - whole) % chunks(order) };
    return (struct seen){ (enum chunk_pass)(slot % CHUNK_PASSES), slot / CHUNK_PASSES };
}

static void check_complete(const struct generator *generator, const struct order *order)
{
    /* check_list checks the chunks of pairs */
    if (generator->pairs)
        return;
    int times[CHUNK_PASSES * 8 * 4] = { 0 };
    int passes = generator_splits(generator) ? 3 : 2;
    ck_assert_int_eq(order->count, passes * chunks(order) * order->shape.num_microbatches);
    for (int i = 0; i < order->count; i++)
        times[order->ops[i].slot]++;
    for (int slot = 0; slot < CHUNK_PASSES * chunks(order); slot++)
        ck_assert_int_eq(times[slot],
                         slot % CHUNK_PASSES < passes ? order->shape.num_microbatches : 0);
}

START_TEST(every_chunk_runs_every_microbatch_forward_and_backward)
{
    each_order(check_complete);
}
END_TEST

static void check_stages(const struct generator *generator, const struct order *order)
{
    struct placement placement = { order->shape.num_stages, order->shape.chunks_per_stage,
                                   generator->rule };
    for (int i = 0; i < order->count; i++)
        if (seen_at(order, i).chunk >= 0)
            ck_assert_int_eq(placement_stage(placement, seen_at(order, i).chunk),
                             order->ops[i].stage);
}

START_TEST(every_op_is_on_the_stage_that_holds_its_chunk)
{
    each_order(check_stages);
}
END_TEST

/* Checks the order of ops: a forward comes after the forward of the previous chunk, a backward
 * after the backward of the next chunk; weight gradients depend only on their own stage. */
static void check_sorted(const struct generator *generator, const struct order *order)
{
    for (int i = 0; i < order->count; i++) {
        const struct order_op *op = &order->ops[i];
        if (op->from < 0)
            continue;
        ck_assert_int_lt(op->from, i);
        const struct order_op *from = &order->ops[op->from];
        struct seen seen = seen_at(order, i), of = seen_at(order, op->from);
        ck_assert_int_ne(seen.pass, CHUNK_WEIGHT);
        ck_assert_int_eq(from->stage == op->stage, op->boundary == order->shape.num_stages);
        if (generator->pairs)
            continue;
        ck_assert_int_eq(of.pass, seen.pass);
        ck_assert_int_eq(of.chunk, seen.chunk + (seen.pass == CHUNK_FORWARD ? -1 : 1));
    }
}

START_TEST(every_op_comes_after_its_dependency)
{
    each_order(check_sorted);
}
END_TEST

/* Checks that the sorted ops of one stage equal the generator's list. */
static void check_list(const struct generator *generator, const struct order *order)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct schedule *schedule = schedule_compute_order(generator, &order->shape, &arena, &err);
    int next[8] = { 0 };
    for (int i = 0; i < order->count; i++) {
        const struct order_op *op = &order->ops[i];
        const struct instr *instr = &schedule->ranks[op->stage].at[next[op->stage]++];
        struct seen seen = seen_at(order, i);
        if (seen.chunk >= 0)
            ck_assert_int_eq(seen.chunk, instr->chunk);
        ck_assert_int_eq(seen.chunk < 0, instr->is_paired && instr->op == INSTR_FORWARD);
        switch (seen.pass) {
        case CHUNK_FORWARD:
            ck_assert_int_eq(instr->op, INSTR_FORWARD);
            break;
        case CHUNK_BACKWARD:
            ck_assert(instr_starts_backward(instr->op));
            break;
        case CHUNK_WEIGHT:
        case CHUNK_PASSES:
            ck_assert_int_eq(instr->op, INSTR_BACKWARD_WEIGHT);
            break;
        }
    }
    arena_release(&arena);
}

START_TEST(the_sorted_ops_of_a_stage_equal_its_generators_list)
{
    each_order(check_list);
}
END_TEST

/* Checks the alternation of passes; at[pass] counts the ops of a stage. After warmup[s] forwards,
 * forwards and backwards alternate. After put_off[s] backwards, backwards and weight-gradient
 * passes alternate. */
static void check_rounds(const struct generator *generator, const struct order *order)
{
    int done[CHUNK_PASSES][8] = { 0 };
    bool alternates = strcmp(generator->name, "gpipe") != 0 &&
                      strcmp(generator->name, "naive") != 0 && !generator->rule;
    for (int i = 0; i < order->count; i++) {
        int s = order->ops[i].stage;
        int pass = (int)seen_at(order, i).pass;
        ck_assert_int_eq(order->at[pass][s * order->per_stage + done[pass][s]++], i);
        int forwards = done[CHUNK_FORWARD][s];
        int backwards = done[CHUNK_BACKWARD][s];
        int weights = done[CHUNK_WEIGHT][s];
        if (!alternates || backwards == 0 || forwards == order->per_stage)
            continue;
        ck_assert_int_le(abs(forwards - backwards - order->warmup[s]), 1);
        if (weights > 0)
            ck_assert_int_le(abs(backwards - weights - order->put_off[s]), 1);
    }
}

START_TEST(steady_rounds_are_one_forward_and_one_backward)
{
    each_order(check_rounds);
}
END_TEST

START_TEST(a_shape_that_the_generator_refuses_has_no_order)
{
    struct arena arena = { 0 };
    struct schedule_shape shape = { 4, 2, 3, 0 }; /* fewer microbatches than stages */
    ck_assert_ptr_null(order_new(generator_find("interleaved"), &shape, &arena));
    arena_release(&arena);
}
END_TEST

/* 2 stages of 2 chunks run 2 microbatches, with a forward of 1 s and a backward of 2 s. A message
 * takes 0.25 s from stage 0 to 1 (1.25 s between the last two chunks), and 4 s from stage 1 to 0.
 * Microbatch 0 ends its forward at 1 + 0.25 + 1 + 4 + 1 + 1.25 + 1 = 9.5 s. Its gradient leaves
 * stage 0 for the first time at 9.5 + 2 + 1.25 + 2 = 14.75 s, and stage 1 for the last time at
 * 14.75 + 4 + 2 s. */
START_TEST(each_boundary_has_its_own_lag)
{
    struct arena arena = { 0 };
    struct schedule_shape shape = { 2, 2, 2, 0 };
    struct order *order = order_new(generator_find("interleaved"), &shape, &arena);
    double duration_s[4 * CHUNK_PASSES], lag_s[4] = { 0.25, 4 };
    lag_s[order_last(&shape)] = 1.25;
    for (int slot = 0; slot < 4 * CHUNK_PASSES; slot++)
        duration_s[slot] = slot % CHUNK_PASSES == CHUNK_BACKWARD ? 2 : 1;
    double done_s[16], end_s[2];
    order_time(order, duration_s, lag_s, done_s, end_s);
    ck_assert_double_eq_tol(done_s[order->at[CHUNK_FORWARD][4 + 2]], 9.5, 1e-12);
    ck_assert_double_eq_tol(done_s[order->at[CHUNK_BACKWARD][0]], 14.75, 1e-12);
    ck_assert_double_eq_tol(done_s[order->at[CHUNK_BACKWARD][4 + 2]], 20.75, 1e-12);
    arena_release(&arena);
}
END_TEST

/* 2 stages run 1 microbatch, with a forward of 1 s, a backward of 2 s and a lag (message time) of
 * 0.5 s. The step takes 1 + 0.5 + 1 + 2 + 0.5 + 2 s. The last stage is free at 4.5 s, when its
 * backward ends. */
START_TEST(a_result_reaches_the_next_stage_after_the_lag)
{
    struct arena arena = { 0 };
    struct schedule_shape shape = { 2, 1, 1, 0 };
    struct order *order = order_new(generator_find("1f1b"), &shape, &arena);
    double duration_s[2 * CHUNK_PASSES] = { 1, 2, 0, 1, 2, 0 }, lag_s[2] = { 0.5, 0.5 };
    double done_s[4], end_s[2];
    ck_assert_double_eq_tol(order_time(order, duration_s, lag_s, done_s, end_s), 7, 1e-12);
    ck_assert_double_eq_tol(end_s[0], 7, 1e-12);
    ck_assert_double_eq_tol(end_s[1], 4.5, 1e-12);
    arena_release(&arena);
}
END_TEST

/* A single stage takes the sum of its passes, here 5 forwards of 1 ms and 5 backwards of 2 ms. */
START_TEST(one_stage_never_waits)
{
    struct arena arena = { 0 };
    struct schedule_shape shape = { 1, 1, 5, 0 };
    struct order *order = order_new(generator_find("1f1b"), &shape, &arena);
    double duration_s[CHUNK_PASSES] = { 1e-3, 2e-3 }, lag_s[1] = { 100 };
    double done_s[10], end_s[1];
    ck_assert_double_eq_tol(order_time(order, duration_s, lag_s, done_s, end_s), 15e-3, 1e-15);
    arena_release(&arena);
}
END_TEST

/* 2 stages run 1 microbatch, with a forward of 1 s, input gradients of 2 s and weight gradients of
 * 4 s. The first stage starts its backward at 4 s, when the last stage starts its weight gradients,
 * and ends at 4 + 2 + 4 s. */
START_TEST(no_stage_waits_for_weight_gradients)
{
    struct arena arena = { 0 };
    struct schedule_shape shape = { 2, 1, 1, 0 };
    struct order *order = order_new(generator_find("zb-h1"), &shape, &arena);
    double duration_s[2 * CHUNK_PASSES] = { 1, 2, 4, 1, 2, 4 }, lag_s[2] = { 0, 0 };
    double done_s[6], end_s[2];
    ck_assert_double_eq_tol(order_time(order, duration_s, lag_s, done_s, end_s), 10, 1e-12);
    ck_assert_double_eq_tol(end_s[1], 8, 1e-12);
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("order");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_chunk_runs_every_microbatch_forward_and_backward);
    tcase_add_test(tc, every_op_is_on_the_stage_that_holds_its_chunk);
    tcase_add_test(tc, every_op_comes_after_its_dependency);
    tcase_add_test(tc, the_sorted_ops_of_a_stage_equal_its_generators_list);
    tcase_add_test(tc, steady_rounds_are_one_forward_and_one_backward);
    tcase_add_test(tc, a_shape_that_the_generator_refuses_has_no_order);
    tcase_add_test(tc, a_result_reaches_the_next_stage_after_the_lag);
    tcase_add_test(tc, each_boundary_has_its_own_lag);
    tcase_add_test(tc, one_stage_never_waits);
    tcase_add_test(tc, no_stage_waits_for_weight_gradients);
    Suite *s = suite_create("sim/engine/order");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
