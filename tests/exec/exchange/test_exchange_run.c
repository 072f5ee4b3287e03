#include "tests/testing.h"

#include "exec/comm/comm.h"
#include "tests/draw.h"
#include "tests/exec/exchange/exchange_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct comm_api *const apis[] = { &comm_local, &comm_tcp };

/* --- sums --------------------------------------------------------------------------------- */

static bool adds_two_vectors(struct exchange_side *side, const struct exchange_case *of)
{
    static const float summands[2][3] = { { 1, 2, 3 }, { 1, 0, 1 } };
    (void)of;
    memcpy(side->gradients, summands[side->on.rank], sizeof summands[0]);
    return exchange_case_sum_step(side, 0) && side->gradients[0] == 2 && side->gradients[1] == 2 &&
           side->gradients[2] == 4;
}

START_TEST(the_sum_of_1_2_3_and_1_0_1_is_2_2_4)
{
    static const char *const words[] = { "allreduce", "ring",   "tree",   "ps:1",
                                         "ps:2",      "topk:1", "ef21:1", "powersgd:1" };
    static const struct exchange_tensor vector = { 3, 1, 1 };
    for (int i = 0; i < LENGTH(words); i++)
        exchange_case_run(apis[_i], (struct exchange_case){ .word = words[i],
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
        exchange_case_fill(side, of, step, side->gradients);
        ok = exchange_case_sum_step(side, step);
        for (size_t i = 0; i < ALL_ELEMENTS; i++)
            ok = ok && side->gradients[i] == exchange_case_sum(of, step, i);
        memset(side->gradients + ALL_ELEMENTS, 0, sizeof(float) * (side->elements - ALL_ELEMENTS));
    }
    return ok && exchanger_num_summed(side->exchanger) == of->size;
}

/* Some of these numbers of ranks divide the number of elements, others do not. */
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
    { "hierarchical", 3, 2 }, { "trimmed:0", 4, 1 },
    { "trimmed:0", 5, 1 },
};

START_TEST(every_exact_exchange_gives_the_sum)
{
    uint64_t seed = told_seed();
    for (int i = 0; i < LENGTH(sums); i++)
        exchange_case_run(apis[_i], (struct exchange_case){ .word = sums[i].word,
                                                            .size = sums[i].size,
                                                            .per_node = sums[i].per_node,
                                                            .check = sums_exactly,
                                                            .seed = seed });
}
END_TEST

/* --- bytes on the wire -------------------------------------------------------------------- */

/* Each method has one layout word and a number of steps to run. There are several steps if a period
 * or alternating graphs make steps differ. */
static const char *const words[] = {
    "allreduce",
    "ring",
    "tree",
    "hierarchical:group=2",
    "ps:1",
    "ps:4",
    "async",
    "async:3:servers=2",
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
    "median",
    "trimmed:1",
    "trimmed:0",
    "krum",
    "geomedian",
};

static double planned(const struct exchange_side *side, int steps)
{
    struct exchange_load load = { case_tensors, NUM_TENSORS, sizeof(float) };
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
        exchange_case_fill(side, of, step, side->gradients);
        ok = exchange_side_descend(side, step, 0.01, 1);
    }
    double sent = round(exchange_side_total(side, exchange_groups_sent_bytes(&side->groups)));
    double expected = planned(side, STEPS), own = exchanger_planned_bytes(side->exchanger);
    if (ok && (sent != expected || own != expected))
        printf("%.0f bytes were sent, but %.0f are planned, and the exchange counts %.0f\n", sent,
               expected, own);
    return ok && sent == expected && own == expected && (expected > 0 || averages);
}

/* All these numbers of ranks divide the number of elements. */
START_TEST(sent_bytes_equal_the_planned_bytes)
{
    if (is_spared(_i, 1))
        return;
    for (int i = 0; i < LENGTH(words); i++)
        for (int size = 2; size <= 4; size++) {
            struct exchange exchange;
            struct err err = { 0 };
            ck_assert_msg(exchange_read(words[i], &exchange, &err), "%s", err.msg);
            const struct exchange_method *method = exchange_method_of(&exchange);
            if (method->accepts && !method->accepts(&exchange, size, &err))
                continue;
            exchange_case_run(apis[_i], (struct exchange_case){ .word = words[i],
                                                                .size = size,
                                                                .per_node = 1,
                                                                .check = sends_what_was_planned });
        }
}
END_TEST

START_TEST(the_executor_has_every_registered_method)
{
    for (int i = 0; i < num_exchange_methods; i++) {
        struct exchange exchange = { .method = i };
        struct err err = { 0 };
        ck_assert_msg(exchanger_can_run(&exchange, &kernels_host, &err), "%s", err.msg);
        bool is_here = false;
        for (int j = 0; j < LENGTH(words); j++)
            is_here = is_here || strncmp(words[j], exchange_methods[i].name,
                                         strlen(exchange_methods[i].name)) == 0;
        ck_assert_msg(is_here, "exchange %s is not in the list of this test",
                      exchange_methods[i].name);
    }
}
END_TEST

START_TEST(a_backend_without_a_methods_kernel_is_refused_by_name)
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
        exchange_case_fill(side, of, step, side->gradients);
        ok = exchange_case_sum_step(side, step);
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
    for (int i = 0; i < LENGTH(words); i++) {
        struct exchange exchange;
        struct err err = { 0 };
        ck_assert(exchange_read(words[i], &exchange, &err));
        if (exchange_keeps_replicas_equal(&exchange))
            exchange_case_run(apis[_i], (struct exchange_case){ .word = words[i],
                                                                .size = 4,
                                                                .per_node = 1,
                                                                .check = leaves_ranks_equal,
                                                                .seed = seed });
    }
}
END_TEST

/* --- groups ------------------------------------------------------------------------------- */

static int num_new, num_open, fails_at; /* groups */

static struct group *new_or_fail(struct comm *comm, const int *ranks, int count, struct err *err)
{
    (void)comm, (void)ranks, (void)count;
    if (num_new++ == fails_at) {
        err_set(err, ERR_SYSTEM, "group", "fails");
        return NULL;
    }
    num_open++;
    return calloc(1, sizeof(struct group));
}

static void free_and_count(struct group *group)
{
    num_open -= group != NULL;
    free(group);
}

/* An exchange within and between nodes has three groups. If one group cannot be made, no group is
 * left open. */
START_TEST(groups_that_cannot_be_made_leave_none)
{
    static const struct {
        const char *word;
        int num_groups;
    } rows[] = { { "hierarchical", 3 }, { "ring", 1 } };
    static const int ranks[] = { 0, 1, 2, 3 };
    const struct comm_api api = { .group_new = new_or_fail, .group_free = free_and_count };
    const struct exchange_ranks numbers = { 4, 2 };
    for (int i = 0; i < LENGTH(rows); i++)
        for (fails_at = 0; fails_at <= rows[i].num_groups; fails_at++) {
            struct exchange exchange;
            struct exchange_groups groups;
            struct err err = { 0 };
            num_new = num_open = 0;
            ck_assert_msg(exchange_read(rows[i].word, &exchange, &err), "%s", err.msg);
            bool ok = exchange_groups_new(&api, NULL, &exchange, &numbers, ranks, 2, &groups, &err);
            ck_assert_int_eq(ok, fails_at == rows[i].num_groups);
            ck_assert_int_eq(num_open, ok ? rows[i].num_groups : 0);
            if (ok)
                exchange_groups_free(&groups);
            ck_assert_int_eq(num_open, 0);
        }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("exchange");
    tcase_set_tags(tc, THREADS);
    tcase_add_loop_test(tc, the_sum_of_1_2_3_and_1_0_1_is_2_2_4, 0, LENGTH(apis));
    tcase_add_loop_test(tc, every_exact_exchange_gives_the_sum, 0, LENGTH(apis));
    tcase_add_loop_test(tc, sent_bytes_equal_the_planned_bytes, 0, LENGTH(apis));
    tcase_add_test(tc, groups_that_cannot_be_made_leave_none);
    tcase_add_test(tc, the_executor_has_every_registered_method);
    tcase_add_test(tc, a_backend_without_a_methods_kernel_is_refused_by_name);
    tcase_add_loop_test(tc, summed_gradients_have_the_same_bits_on_all_ranks, 0, LENGTH(apis));
    Suite *s = suite_create("exec/exchange");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
