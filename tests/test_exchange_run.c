#include "tests/testing.h"

#include "tests/draw.h"
#include "tests/exchange_side.h"
#include "tests/rank_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct comm_api *const apis[] = { &comm_local, &comm_tcp };

/* What all ranks of a case do alike. */
struct exchange_case {
    const char *word; /* of a plan */
    int size, per_node;
    const struct exchange_tensor *tensors;
    int num_tensors;
    bool (*check)(struct exchange_side *side, const struct exchange_case *of);
    uint64_t seed;
};

static bool run_side(struct rank_job *job, const struct comm_options *options)
{
    const struct exchange_case *of = job->context;
    struct exchange_world world;
    struct exchange_side side;
    if (!exchange_world_open(&world, job->api, options))
        return false;
    bool ok =
        exchange_side_open(&side, &world, of->word, of->tensors, of->num_tensors, of->per_node) &&
        of->check(&side, of);
    if (!ok)
        printf("exchange=%s, %d ranks over %s\n", of->word, of->size, job->api->name);
    exchange_side_close(&side);
    world.api->close(world.comm);
    return ok;
}

static void run_case(const struct comm_api *api, struct exchange_case of)
{
    rank_job_run((struct rank_job){
        .api = api, .size = of.size, .seed = of.seed + 1, .run = run_side, .context = &of });
}

/* A matrix, a vector, and another matrix: 24 x 20 + 12 + 2 (12 x 16) = 876 elements. */
static const struct exchange_tensor tensors[] = { { 24, 20, 1 }, { 12, 1, 1 }, { 12, 16, 2 } };
enum { NUM_TENSORS = 3, ALL_ELEMENTS = 24 * 20 + 12 + 2 * 12 * 16 };

/* Small whole numbers, whose sums are exact. */
static float value_of(const struct exchange_case *of, int rank, int step, size_t i)
{
    struct random rng = random_new(of->seed + (uint64_t)step, (uint64_t)rank * 100003 + i);
    return (float)(random_below(&rng, 31) - 15);
}

static void fill(const struct exchange_side *side, const struct exchange_case *of, int step,
                 float *at)
{
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        at[i] = value_of(of, side->on.rank, step, i);
}

static float sum_of(const struct exchange_case *of, int step, size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < of->size; rank++)
        sum += value_of(of, rank, step, i);
    return sum;
}

static bool sum_step(struct exchange_side *side, int step)
{
    exchanger_begin_step(side->exchanger, step);
    exchanger_sum(side->exchanger, side->gradients);
    exchanger_end_step(side->exchanger, 1);
    return exchange_side_sync(side);
}

static bool average_step(struct exchange_side *side, int step)
{
    exchanger_begin_step(side->exchanger, step);
    if (exchanger_averages(side->exchanger)) {
        exchanger_average(side->exchanger, side->weights, side->averaged);
        device_host.copy(side->stream, side->weights, side->averaged,
                         sizeof(float) * side->elements);
    }
    exchanger_end_step(side->exchanger, 1);
    return exchange_side_sync(side);
}

/* --- sums --------------------------------------------------------------------------------- */

static bool adds_two_vectors(struct exchange_side *side, const struct exchange_case *of)
{
    static const float summands[2][3] = { { 1, 2, 3 }, { 1, 0, 1 } };
    (void)of;
    memcpy(side->gradients, summands[side->on.rank], sizeof summands[0]);
    return sum_step(side, 0) && side->gradients[0] == 2 && side->gradients[1] == 2 &&
           side->gradients[2] == 4;
}

START_TEST(one_two_three_and_one_nothing_one_are_two_two_four)
{
    static const char *const words[] = { "allreduce", "ring",   "tree",   "ps:1",
                                         "ps:2",      "topk:1", "ef21:1", "powersgd:1" };
    static const struct exchange_tensor vector = { 3, 1, 1 };
    for (int i = 0; i < COUNT(words); i++)
        run_case(apis[_i], (struct exchange_case){ .word = words[i],
                                                   .size = 2,
                                                   .per_node = 1,
                                                   .tensors = &vector,
                                                   .num_tensors = 1,
                                                   .check = adds_two_vectors });
}
END_TEST

static bool sums_exactly(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 2 && ok; step++) {
        fill(side, of, step, side->gradients);
        ok = sum_step(side, step);
        for (size_t i = 0; i < ALL_ELEMENTS; i++)
            ok = ok && side->gradients[i] == sum_of(of, step, i);
        memset(side->gradients + ALL_ELEMENTS, 0, sizeof(float) * (side->elements - ALL_ELEMENTS));
    }
    return ok && exchanger_num_summed(side->exchanger) == of->size;
}

/* Ranks that divide the elements and ranks that do not. */
static const struct {
    const char *word;
    int size, per_node;
} sums[] = {
    { "allreduce", 3, 1 },    { "ring", 2, 1 },
    { "ring", 4, 1 },         { "ring", 5, 1 },
    { "tree", 2, 1 },         { "tree", 3, 1 },
    { "tree", 6, 1 },         { "tree", 8, 1 },
    { "ps:1", 4, 1 },         { "ps:3", 5, 1 },
    { "ps:2", 6, 1 },         { "ps:5", 6, 1 },
    { "ps:4", 4, 1 },         { "hierarchical", 4, 2 },
    { "hierarchical", 6, 3 }, { "hierarchical:group=4", 8, 1 },
    { "hierarchical", 3, 2 },
};

START_TEST(every_way_to_sum_gives_the_sum)
{
    uint64_t seed = told_seed();
    for (int i = 0; i < COUNT(sums); i++)
        run_case(apis[_i], (struct exchange_case){ .word = sums[i].word,
                                                   .size = sums[i].size,
                                                   .per_node = sums[i].per_node,
                                                   .tensors = tensors,
                                                   .num_tensors = NUM_TENSORS,
                                                   .check = sums_exactly,
                                                   .seed = seed });
}
END_TEST

/* --- bytes on the wire -------------------------------------------------------------------- */

/* One of each method, and where a period or a turn makes steps differ, over several. */
static const char *const words[] = {
    "allreduce",
    "ring",
    "tree",
    "hierarchical:group=2",
    "ps:1",
    "ps:4",
    "gossip:ring",
    "gossip:grid",
    "gossip:exp",
    "gossip:one-peer",
    "gossip:ring:combine=beside",
    "gossip:exp:group=2",
    "local:2",
    "pga:2:graph=ring:group=2",
    "pga:3:graph=ring",
    "aga:2",
    "qsgd:4",
    "qsgd:7",
    "topk:0.013",
    "topk:0.2:memory=off",
    "ef21:0.1",
    "neolithic:0.05:rounds=3",
    "powersgd:1",
    "powersgd:3:memory=off",
};

static double planned(const struct exchange_side *side, int steps)
{
    struct exchange_load load = { tensors, NUM_TENSORS, sizeof(float) };
    struct exchange_ranks ranks = { side->on.size, 1 };
    double bytes = 0;
    for (int step = 0; step < steps; step++)
        bytes += exchange_wire_bytes(&side->exchange, &load, &ranks, step);
    return bytes;
}

static bool sends_what_was_planned(struct exchange_side *side, const struct exchange_case *of)
{
    enum { STEPS = 4 };
    bool ok = true, averages = exchange_method_of(&side->exchange)->object == EXCHANGE_WEIGHTS;
    for (int step = 0; step < STEPS && ok; step++) {
        fill(side, of, step, side->gradients);
        ok = exchange_side_descend(side, step, 0.01, 1);
    }
    double sent = round(exchange_side_total(side, exchange_groups_sent_bytes(&side->groups)));
    double expected = planned(side, STEPS), own = exchanger_planned_bytes(side->exchanger);
    if (ok && (sent != expected || own != expected))
        printf("sent %.0f bytes, planned %.0f, said %.0f\n", sent, expected, own);
    return ok && sent == expected && own == expected && (expected > 0 || averages);
}

/* The elements are divided by 2 and 4. Of all-reduce over four ranks TCP sends small messages
 * whole, which is more: methods with one are held to it over two. */
START_TEST(bytes_on_the_wire_are_those_that_were_planned)
{
    for (int i = 0; i < COUNT(words); i++)
        for (int size = 2; size <= 4; size += 2) {
            struct exchange exchange;
            struct err err = { 0 };
            ck_assert_msg(exchange_read(words[i], &exchange, &err), "%s", err.msg);
            const struct exchange_method *method = exchange_method_of(&exchange);
            if (method->accepts && !method->accepts(&exchange, size, &err))
                continue;
            bool all_reduces = strcmp(method->name, "allreduce") == 0 || exchange.period > 1 ||
                               exchange.group > 1 || exchange.rank > 0;
            if (apis[_i] == &comm_tcp && all_reduces && size > 2)
                continue;
            run_case(apis[_i], (struct exchange_case){ .word = words[i],
                                                       .size = size,
                                                       .per_node = 1,
                                                       .tensors = tensors,
                                                       .num_tensors = NUM_TENSORS,
                                                       .check = sends_what_was_planned });
        }
}
END_TEST

START_TEST(every_method_of_the_registry_can_be_run)
{
    for (int i = 0; i < num_exchange_methods; i++) {
        struct exchange exchange = { .method = i };
        struct err err = { 0 };
        ck_assert_msg(exchanger_can_run(&exchange, &kernels_host, &err), "%s", err.msg);
        bool is_here = false;
        for (int j = 0; j < COUNT(words); j++)
            is_here = is_here || strncmp(words[j], exchange_methods[i].name,
                                         strlen(exchange_methods[i].name)) == 0;
        ck_assert_msg(is_here, "%s is not among the words of this test", exchange_methods[i].name);
    }
}
END_TEST

START_TEST(kernels_that_lack_what_a_method_needs_are_named)
{
    struct kernel_api lacking = kernels_host;
    struct exchange exchange;
    struct err err = { 0 };
    lacking.combine = NULL;
    ck_assert(exchange_read("ring", &exchange, &err));
    ck_assert(exchanger_can_run(&exchange, &lacking, &err));
    ck_assert(exchange_read("topk:0.1", &exchange, &err));
    ck_assert(!exchanger_can_run(&exchange, &lacking, &err));
    ck_assert_str_eq(err.where, "exchange");
    ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
}
END_TEST

/* --- replicas ----------------------------------------------------------------------------- */

static bool leaves_ranks_equal(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 3 && ok; step++) {
        fill(side, of, step, side->gradients);
        ok = sum_step(side, step);
        memcpy(side->averaged, side->gradients, sizeof(float) * ALL_ELEMENTS);
        side->on.api->issue(&(struct comm_call){ .kind = COMM_BROADCAST,
                                                 .group = side->world,
                                                 .stream = side->stream,
                                                 .in = side->averaged,
                                                 .out = side->averaged,
                                                 .count = ALL_ELEMENTS,
                                                 .element = ELEMENT_FP32 });
        ok = ok && exchange_side_sync(side) &&
             memcmp(side->averaged, side->gradients, sizeof(float) * ALL_ELEMENTS) == 0;
    }
    return ok;
}

START_TEST(summed_gradients_have_the_same_bits_on_all_ranks)
{
    uint64_t seed = told_seed();
    for (int i = 0; i < COUNT(words); i++) {
        struct exchange exchange;
        struct err err = { 0 };
        ck_assert(exchange_read(words[i], &exchange, &err));
        if (exchange_keeps_replicas_equal(&exchange))
            run_case(apis[_i], (struct exchange_case){ .word = words[i],
                                                       .size = 4,
                                                       .per_node = 1,
                                                       .tensors = tensors,
                                                       .num_tensors = NUM_TENSORS,
                                                       .check = leaves_ranks_equal,
                                                       .seed = seed });
    }
}
END_TEST

/* --- compression -------------------------------------------------------------------------- */

/* What was delivered in all steps and what all ranks remember make up what was given. */
static bool loses_nothing(struct exchange_side *side, const struct exchange_case *of)
{
    double delivered[ALL_ELEMENTS] = { 0 };
    enum { STEPS = 120 };
    bool ok = true;
    for (int step = 0; step < STEPS && ok; step++) {
        if (step < 5)
            fill(side, of, step, side->gradients);
        else
            memset(side->gradients, 0, sizeof(float) * ALL_ELEMENTS);
        ok = sum_step(side, step);
        for (size_t i = 0; i < ALL_ELEMENTS; i++)
            delivered[i] += (double)side->gradients[i];
    }
    for (size_t i = 0; i < ALL_ELEMENTS; i++) {
        double given = 0;
        for (int step = 0; step < 5; step++)
            given += (double)sum_of(of, step, i);
        ok = ok && fabs(delivered[i] - given) < 1e-3;
    }
    return ok;
}

START_TEST(error_feedback_delivers_everything_in_the_end)
{
    static const char *const with_memory[] = { "topk:0.02", "neolithic:0.02:rounds=2",
                                               "powersgd:2" };
    for (int i = 0; i < COUNT(with_memory); i++)
        run_case(&comm_local, (struct exchange_case){ .word = with_memory[i],
                                                      .size = 3,
                                                      .per_node = 1,
                                                      .tensors = tensors,
                                                      .num_tensors = NUM_TENSORS,
                                                      .check = loses_nothing,
                                                      .seed = 7 });
}
END_TEST

/* Of a gradient that stays, what EF21 takes for it becomes it: each step sends k elements that were
 * not right yet. */
static bool catches_up(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 10 && ok; step++) {
        fill(side, of, 0, side->gradients);
        ok = sum_step(side, step);
    }
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        ok = ok && side->gradients[i] == sum_of(of, 0, i);
    return ok;
}

START_TEST(ef21_becomes_a_gradient_that_stays)
{
    run_case(&comm_local, (struct exchange_case){ .word = "ef21:0.1",
                                                  .size = 4,
                                                  .per_node = 1,
                                                  .tensors = tensors,
                                                  .num_tensors = NUM_TENSORS,
                                                  .check = catches_up,
                                                  .seed = 9 });
}
END_TEST

/* Rounds of top-k without memory take the k largest, then the next k. */
static bool sums_into_averaged(struct exchange_side *side, const struct exchange_case *of)
{
    fill(side, of, 0, side->gradients);
    bool ok = sum_step(side, 0);
    float *kept = ((float **)(uintptr_t)of->seed)[side->on.rank];
    memcpy(kept, side->gradients, sizeof(float) * ALL_ELEMENTS);
    return ok;
}

START_TEST(two_rounds_send_what_one_of_twice_the_share_does)
{
    static const char *const two[] = { "neolithic:0.1:rounds=2:memory=off",
                                       "neolithic:0.2:rounds=1:memory=off" };
    static float found[2][2][ALL_ELEMENTS];
    for (int i = 0; i < 2; i++) {
        float *kept[] = { found[i][0], found[i][1] };
        run_case(&comm_local, (struct exchange_case){ .word = two[i],
                                                      .size = 2,
                                                      .per_node = 1,
                                                      .tensors = tensors,
                                                      .num_tensors = NUM_TENSORS,
                                                      .check = sums_into_averaged,
                                                      .seed = (uint64_t)(uintptr_t)kept });
    }
    ck_assert_mem_eq(found[0][0], found[1][0], sizeof found[0][0]);
}
END_TEST

/* --- averages ----------------------------------------------------------------------------- */

static double deviation(struct exchange_side *side, double mean)
{
    double off = (double)side->weights[0] - mean;
    return exchange_side_total(side, off * off);
}

/* From any values one step leaves at most beta of their distance from the mean, which stays. */
static bool comes_closer(struct exchange_side *side, const struct exchange_case *of)
{
    double beta = mixing_second_singular((enum mixing_graph)side->exchange.graph, of->size);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        side->weights[i] = value_of(of, side->on.rank, 0, 0);
    double mean = exchange_side_total(side, (double)side->weights[0]) / of->size;
    double before = deviation(side, mean);
    bool ok = average_step(side, 0);
    double after = deviation(side, mean);
    double moved = exchange_side_total(side, (double)side->weights[0]) / of->size - mean;
    return ok && after <= beta * beta * before + 1e-9 && fabs(moved) < 1e-5 &&
           side->weights[0] == side->weights[ALL_ELEMENTS - 1];
}

START_TEST(a_step_of_gossip_leaves_at_most_the_second_singular_value)
{
    static const char *const graphs[] = { "gossip:ring", "gossip:grid", "gossip:exp" };
    uint64_t seed = told_seed();
    for (int i = 0; i < COUNT(graphs); i++)
        run_case(apis[_i], (struct exchange_case){ .word = graphs[i],
                                                   .size = 6,
                                                   .per_node = 1,
                                                   .tensors = tensors,
                                                   .num_tensors = NUM_TENSORS,
                                                   .check = comes_closer,
                                                   .seed = seed });
}
END_TEST

static bool averages_exactly(struct exchange_side *side, const struct exchange_case *of)
{
    int steps = mixing_cycle(MIXING_ONE_PEER, of->size);
    bool ok = true;
    fill(side, of, 0, side->weights);
    for (int step = 0; step < steps && ok; step++)
        ok = average_step(side, step);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        ok = ok && side->weights[i] == sum_of(of, 0, i) / (float)of->size;
    return ok;
}

/* Whole numbers and halves of them: not even the rounding differs. */
START_TEST(one_peer_averages_exactly_after_log2_n_steps)
{
    for (int size = 2; size <= MOST_JOB_RANKS; size *= 2)
        run_case(apis[_i], (struct exchange_case){ .word = "gossip:one-peer",
                                                   .size = size,
                                                   .per_node = 1,
                                                   .tensors = tensors,
                                                   .num_tensors = NUM_TENSORS,
                                                   .check = averages_exactly,
                                                   .seed = 3 });
}
END_TEST

/* Ranks that act as one hold the same, which are averaged part by part. */
static bool averages_groups(struct exchange_side *side, const struct exchange_case *of)
{
    int first = side->on.rank / 2 * 2;
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        side->weights[i] = value_of(of, first, 0, i);
    bool ok = average_step(side, 0);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        ok = ok && side->weights[i] == (value_of(of, 0, 0, i) + value_of(of, 2, 0, i)) / 2;
    return ok && exchanger_num_summed(side->exchanger) == 2;
}

START_TEST(groups_average_with_groups)
{
    run_case(apis[_i], (struct exchange_case){ .word = "gossip:ring:group=2",
                                               .size = 4,
                                               .per_node = 1,
                                               .tensors = tensors,
                                               .num_tensors = NUM_TENSORS,
                                               .check = averages_groups });
}
END_TEST

/* Steps in which all ranks come to the same value, from 0: period 3 has 2, 5, 8 ... */
static bool averages_every_third(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 9 && ok; step++) {
        side->weights[0] = (float)side->on.rank;
        ok = average_step(side, step);
        double mean = (of->size - 1) / 2.0;
        ok = ok && (deviation(side, mean) < 1e-9) == (step % 3 == 2);
    }
    return ok;
}

START_TEST(local_steps_average_at_the_end_of_every_period)
{
    run_case(&comm_local, (struct exchange_case){ .word = "local:3",
                                                  .size = 4,
                                                  .per_node = 1,
                                                  .tensors = tensors,
                                                  .num_tensors = NUM_TENSORS,
                                                  .check = averages_every_third });
}
END_TEST

/* The loss halves after the first average: its period of 2 becomes 4. */
static bool waits_longer(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 10 && ok; step++) {
        side->weights[0] = (float)side->on.rank;
        exchanger_begin_step(side->exchanger, step);
        exchanger_average(side->exchanger, side->weights, side->averaged);
        ok = exchange_side_sync(side);
        side->weights[0] = side->averaged[0];
        double apart = deviation(side, (of->size - 1) / 2.0);
        exchanger_end_step(side->exchanger, step == 0 ? 8 : 4);
        ok = ok && (apart < 1e-9) == (step == 1 || step == 5 || step == 9);
    }
    return ok;
}

START_TEST(an_adaptive_period_grows_as_the_loss_falls)
{
    run_case(&comm_local, (struct exchange_case){ .word = "aga:2:graph=ring",
                                                  .size = 5,
                                                  .per_node = 1,
                                                  .tensors = tensors,
                                                  .num_tensors = NUM_TENSORS,
                                                  .check = waits_longer });
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("exchange");
    tcase_add_loop_test(tc, one_two_three_and_one_nothing_one_are_two_two_four, 0, COUNT(apis));
    tcase_add_loop_test(tc, every_way_to_sum_gives_the_sum, 0, COUNT(apis));
    tcase_add_loop_test(tc, bytes_on_the_wire_are_those_that_were_planned, 0, COUNT(apis));
    tcase_add_test(tc, every_method_of_the_registry_can_be_run);
    tcase_add_test(tc, kernels_that_lack_what_a_method_needs_are_named);
    tcase_add_loop_test(tc, summed_gradients_have_the_same_bits_on_all_ranks, 0, COUNT(apis));
    tcase_add_test(tc, error_feedback_delivers_everything_in_the_end);
    tcase_add_test(tc, ef21_becomes_a_gradient_that_stays);
    tcase_add_test(tc, two_rounds_send_what_one_of_twice_the_share_does);
    tcase_add_loop_test(tc, a_step_of_gossip_leaves_at_most_the_second_singular_value, 0,
                        COUNT(apis));
    tcase_add_loop_test(tc, one_peer_averages_exactly_after_log2_n_steps, 0, COUNT(apis));
    tcase_add_loop_test(tc, groups_average_with_groups, 0, COUNT(apis));
    tcase_add_test(tc, local_steps_average_at_the_end_of_every_period);
    tcase_add_test(tc, an_adaptive_period_grows_as_the_loss_falls);
    Suite *s = suite_create("exec/exchange");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
