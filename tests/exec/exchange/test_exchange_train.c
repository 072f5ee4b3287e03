/* Trains a model with gradient exchanges other than all-reduce. Exact methods must give
 * all-reduce's result, other methods must lower the loss, and all methods must send the planned
 * bytes. */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Plain gradient descent is linear in the gradients. So if ranks start with equal weights,
 * averaging the weights after a step equals averaging the gradients. */
static struct parity_run descent(void)
{
    return (struct parity_run){
        .steps = 3, .optimizer = OPTIMIZER_SGD, .rate = 0.1F, .seed = 5, .unclipped = true
    };
}

static struct model model_of(const char *layout)
{
    struct model model = layout[0] == 'p' ? parity_gpt() : parity_llama();
    if (strstr(layout, "dp3"))
        model.batch = 6;
    return model;
}

/* --- exchanges that equal all-reduce ------------------------------------------------------ */

static const struct {
    const char *plain, *exchange;
} alike[] = {
    { "dp4 mb2", "ring" },
    { "dp4 mb2", "tree" },
    { "dp4 mb2", "hierarchical:group=2" },
    { "dp4 mb2", "ps:3" },
    { "dp3 mb1", "ring" },
    { "dp3 mb1", "ps:2" },
    { "dp2 tp2 sp", "ring" },
    { "pp2 dp2 mb2", "tree" },
    { "pp2 vpp2 dp2 mb2", "ps:1" },
    { "dp4 mb2", "trimmed:0" },
    { "pp2 dp2 tp2 sp mb1", "trimmed:0" },
    { "dp4 mb2", "topk:1" },
    { "pp2 dp2", "topk:1:memory=off" },
    { "dp2 tp2", "ef21:1" },
    { "dp4 mb2", "neolithic:0.5:rounds=2" },
    { "dp4 mb2", "local:1" },
    { "dp2 tp2 sp", "local:1" },
    { "pp2 dp2 mb2", "local:1" },
    { "dp2 mb2", "gossip:one-peer" },
    { "dp3 mb1", "gossip:ring" },
    { "dp4 mb2", "gossip:ring:group=2" },
    { "pp2 dp4 mb1", "pga:2:graph=ring:group=2" },
};

START_TEST(exact_methods_equal_all_reduce)
{
    if (is_spared(_i, 6))
        return;
    char layout[100];
    struct model model = model_of(alike[_i].plain);
    struct parity_run run = descent();
    struct parity_result plain, exchanged;
    snprintf(layout, sizeof layout, "%s exchange=%s", alike[_i].plain, alike[_i].exchange);
    parity_run(&model, alike[_i].plain, &run, &plain);
    parity_run(&model, layout, &run, &exchanged);
    parity_check_losses(&plain, &exchanged, run.steps, 1e-5, layout);
    ck_assert_msg(parity_distance(&plain, &exchanged) <= 1e-5, "%s: weights differ by %g", layout,
                  parity_distance(&plain, &exchanged));
    parity_release(&plain);
    parity_release(&exchanged);
}
END_TEST

/* --- exchanges that change the results ---------------------------------------------------- */

static const char *const layouts[] = {
    "dp4 mb2 exchange=gossip:ring",
    "pp2 dp2 mb2 exchange=gossip:one-peer:combine=beside",
    "dp4 mb2 exchange=gossip:exp",
    "dp2 tp2 sp exchange=local:2",
    "dp4 mb2 exchange=pga:3:graph=grid",
    "dp4 mb2 exchange=aga:2",
    "pp2 dp2 mb2 exchange=qsgd:6",
    "dp2 tp2 sp exchange=qsgd:6",
    "dp4 mb2 exchange=topk:0.1",
    "dp4 mb2 exchange=ef21:0.1",
    "dp2 tp2 sp exchange=ef21:0.1",
    "dp2 tp2 exchange=neolithic:0.05",
    "pp2 vpp2 dp2 mb2 exchange=powersgd:2",
    "pp2 dp4 mb1 exchange=median:1",
    "dp4 tp2 sp mb1 exchange=trimmed:1",
    "pp2 dp2 tp2 sp mb1 exchange=async",
    "dp4 mb2 exchange=async:2:servers=4",
    "dp4 mb2 exchange=krum",
    "dp8 mb1 exchange=geomedian",
};

static struct parity_run adam(int steps)
{
    return (
        struct parity_run){ .steps = steps, .optimizer = OPTIMIZER_ADAM, .rate = 0.01F, .seed = 5 };
}

/* Sent and planned bytes over all ranks. */
struct bytes {
    pthread_mutex_t mutex;
    struct exchanged_bytes sum;
};

static bool add_bytes(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct bytes *bytes = run->context;
    struct exchanged_bytes own = rank_exchanged_bytes(rank);
    (void)err;
    pthread_mutex_lock(&bytes->mutex);
    bytes->sum.sent += own.sent;
    bytes->sum.planned += own.planned;
    pthread_mutex_unlock(&bytes->mutex);
    return true;
}

/* The initial loss is log(256), the loss of a uniform guess among 256 bytes. */
START_TEST(every_method_lowers_the_loss_and_sends_the_planned_bytes)
{
    if (is_spared(_i, 6))
        return;
    enum { STEPS = 16 };
    struct model model = model_of(layouts[_i]);
    model.vocab = 256;
    struct token_source text = parity_text(&model);
    struct bytes bytes = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct parity_run run = adam(STEPS);
    struct parity_result result;
    run.tokens = &text;
    run.after = add_bytes;
    run.context = &bytes;
    parity_run(&model, layouts[_i], &run, &result);
    ck_assert_msg(result.loss[STEPS - 1] < result.loss[0] - 1,
                  "%s: the loss is %g at first and %g at the end", layouts[_i], result.loss[0],
                  result.loss[STEPS - 1]);
    ck_assert_double_gt(bytes.sum.planned, 0);
    ck_assert_double_eq(bytes.sum.sent, bytes.sum.planned);
    parity_release(&result);
    token_source_close(&text);
}
END_TEST

/* Plans with all-reduce and ZeRO. The number of bytes that they send follows from the instruction
 * list and the passes. */
static const char *const reduced[] = {
    "dp2 mb2",
    "dp3 mb1",
    "dp4 mb2 zero1",
    "dp2 mb1 zero2",
    "dp2 tp2 sp mb1 zero3",
    "dp2 pp2 vpp2 mb2 recompute=full",
    "pp2 dp2 mb2 zero1 schedule=zb-h1",
    "dp4 mb1 zero3 recompute=full",
    "dp2 mb2 zero3",
};

START_TEST(data_ranks_send_the_bytes_of_the_instruction_list)
{
    struct model model = model_of(reduced[_i]);
    struct bytes bytes = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct parity_run run = adam(2);
    struct parity_result result;
    run.precision = _i % 2 ? PRECISION_BF16 : PRECISION_FP32;
    run.after = add_bytes;
    run.context = &bytes;
    parity_run(&model, reduced[_i], &run, &result);
    ck_assert_double_gt(bytes.sum.planned, 0);
    ck_assert_double_eq(bytes.sum.sent, bytes.sum.planned);
    parity_release(&result);
}
END_TEST

/* With one data rank nothing is sent. If the communicator does not count bytes, the number is
 * negative. */
START_TEST(one_data_rank_sends_0_bytes_and_an_unknown_count_is_negative)
{
    struct comm_api uncounted = comm_local;
    uncounted.sent_bytes = NULL;
    static const struct {
        const char *layout;
        bool counts;
        double sent;
    } table[] = { { "tp2 mb2", true, 0 }, { "dp2 mb2", false, -2 }, { "tp2 mb2", false, 0 } };
    for (int i = 0; i < LENGTH(table); i++) {
        struct model model = model_of(table[i].layout);
        struct bytes bytes = { .mutex = PTHREAD_MUTEX_INITIALIZER };
        struct parity_run run = adam(1);
        struct parity_result result;
        run.comm = table[i].counts ? NULL : &uncounted;
        run.after = add_bytes;
        run.context = &bytes;
        parity_run(&model, table[i].layout, &run, &result);
        ck_assert_double_eq(bytes.sum.sent, table[i].sent);
        parity_release(&result);
    }
}
END_TEST

/* Stored bf16 weights are rounded from fp32 master weights. With plain gradient descent, averaging
 * the masters equals averaging gradients, up to the last of bf16's eight bits. */
static const struct {
    const char *plain, *exchange;
} rounded[] = {
    { "dp4 mb2", "local:1" },
    { "pp2 dp2 mb2", "gossip:one-peer" },
    { "dp2 tp2 sp", "local:1" },
    { "dp4 mb2", "ring" },
};

START_TEST(with_16_bit_weights_the_fp32_masters_are_averaged)
{
    if (is_spared(_i, 2))
        return;
    char layout[100];
    struct model model = model_of(rounded[_i].plain);
    struct parity_run run = descent();
    struct parity_result plain, exchanged;
    run.precision = PRECISION_BF16;
    snprintf(layout, sizeof layout, "%s exchange=%s", rounded[_i].plain, rounded[_i].exchange);
    parity_run(&model, rounded[_i].plain, &run, &plain);
    parity_run(&model, layout, &run, &exchanged);
    parity_check_losses(&plain, &exchanged, run.steps, 1e-3, layout);
    ck_assert_msg(parity_distance(&plain, &exchanged) <= 0x1p-8, "%s: weights differ by %g", layout,
                  parity_distance(&plain, &exchanged));
    parity_release(&plain);
    parity_release(&exchanged);
}
END_TEST

/* The second run has random pauses before work, so that a missing wait between streams would change
 * bits. */
START_TEST(repeated_runs_of_an_exchange_have_the_same_bits)
{
    if (is_spared(_i, 5))
        return;
    struct model model = model_of(layouts[_i]);
    struct parity_run run = adam(3), delayed = adam(3);
    struct parity_result one, other;
    delayed.delay_most_s = 50e-6;
    parity_run(&model, layouts[_i], &run, &one);
    parity_run(&model, layouts[_i], &delayed, &other);
    ck_assert_msg(parity_is_equal(&one, &other, 3), "%s: the two runs differ", layouts[_i]);
    parity_release(&one);
    parity_release(&other);
}
END_TEST

/* --- hostile ranks ------------------------------------------------------------------------ */

enum { EIGHTS_STEPS = 12 };

/* Trains eight data ranks with `rows` sequences each and returns the losses. Hostile ranks send as
 * many bytes as the others. */
static struct parity_result train_by_eight(const char *exchange, const char *hostile, int rows)
{
    struct model model = parity_llama();
    struct bytes bytes = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct parity_run run = adam(EIGHTS_STEPS);
    struct parity_result result;
    struct err err = { 0 };
    char layout[60];
    model.vocab = 256;
    model.layers = 1;
    model.batch = 8.0 * rows;
    struct token_source text = parity_text(&model);
    ck_assert(!hostile || hostility_read(hostile, &run.hostility, &err));
    run.tokens = &text;
    run.after = add_bytes;
    run.context = &bytes;
    snprintf(layout, sizeof layout, "dp8 mb%d exchange=%s", rows, exchange);
    parity_run(&model, layout, &run, &result);
    ck_assert_double_eq(bytes.sum.sent, bytes.sum.planned);
    token_source_close(&text);
    return result;
}

/* Mean of the last four losses. */
static double last_loss(const char *exchange, const char *hostile, int rows)
{
    struct parity_result result = train_by_eight(exchange, hostile, rows);
    double sum = 0;
    for (int i = 1; i <= 4; i++)
        sum += result.loss[EIGHTS_STEPS - i];
    parity_release(&result);
    return sum / 4;
}

/* The conditions of the robust methods hold: 2 hostile ranks of n = 8 are fewer than n/2 and (n -
 * 2)/2, and 32 sequences make a gradient's variance small. test_convex.c tests every rule with
 * every kind of false gradient. */
START_TEST(two_hostile_ranks_of_eight_stop_learning_with_all_reduce_only)
{
    static const struct {
        const char *exchange, *hostile;
    } rows[] = {
        { "median:2", "2:flip" },
        { "trimmed:2", "2:noise" },
        { "krum:2", "2:silence" },
        { "geomedian:2", "2:silence" },
    };
    double clean = last_loss("allreduce", NULL, 32);
    ck_assert_double_lt(clean, 4);
    ck_assert_double_gt(last_loss("allreduce", "2:flip", 32), 2 * clean);
    for (int i = 0; i < LENGTH(rows); i++) {
        double loss = last_loss(rows[i].exchange, rows[i].hostile, 32);
        ck_assert_msg(fabs(loss / clean - 1) < 0.02,
                      "%s with hostile ranks %s: the loss is %g, but %g without them",
                      rows[i].exchange, rows[i].hostile, loss, clean);
    }
}
END_TEST

/* With more hostile ranks than allowed, Krum chooses the ranks that send zeros: a gradient of one
 * sequence is closer to 0 than to another gradient. So nothing is learnt. */
START_TEST(krum_does_not_learn_with_noisy_gradients_and_too_many_zero_senders)
{
    struct parity_result silent = train_by_eight("krum:2", "2:silence", 1);
    struct parity_result clean = train_by_eight("krum:2", NULL, 1);
    double first = silent.loss[0];
    ck_assert_double_eq(silent.gradient_norm[EIGHTS_STEPS - 1], 0);
    ck_assert_double_gt(silent.loss[EIGHTS_STEPS - 1], first - 0.2);
    ck_assert_double_lt(clean.loss[EIGHTS_STEPS - 1], first - 1);
    parity_release(&silent);
    parity_release(&clean);
}
END_TEST

/* --- waiting for neighbours --------------------------------------------------------------- */

enum {
    MANY = 8,
    HELD = 2 /* the step that rank 0 begins only after other ranks have completed it */
};

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct exchange *exchange;
    int come[MANY], begun[MANY]; /* latest step that each rank has reached, and begun */
    int ahead; /* number of ranks that must complete the step HELD before rank 0 begins it */
    bool came_in_vain, was_overtaken;
};

static int num_past(const struct gate *gate, int step)
{
    int count = 0;
    for (int rank = 0; rank < MANY; rank++)
        count += gate->come[rank] > step;
    return count;
}

/* Returns whether `rank` cannot complete the step before `other` has begun the step. */
static bool waits_for(const struct exchange *exchange, int rank, int other, int step)
{
    if (exchange_keeps_replicas_equal(exchange) || exchange->period > 1)
        return exchange_averages(exchange, step - 1);
    struct mixing_peers peers =
        mixing_peers((enum mixing_graph)exchange->graph, MANY, rank, step - 1);
    for (int i = 0; i < peers.count; i++)
        if (peers.hears[i] == other)
            return true;
    return false;
}

static void wait_for_others(struct gate *gate)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    while (num_past(gate, HELD) < gate->ahead && !gate->came_in_vain)
        gate->came_in_vain = pthread_cond_timedwait(&gate->changed, &gate->mutex, &limit) != 0;
}

static void come_to_step(const struct parity_run *run, int rank, int step)
{
    struct gate *gate = run->context;
    pthread_mutex_lock(&gate->mutex);
    gate->come[rank] = step;
    for (int other = 0; other < MANY && step > 1; other++)
        if (waits_for(gate->exchange, rank, other, step - 1) && gate->begun[other] < step - 1)
            gate->was_overtaken = true;
    pthread_cond_broadcast(&gate->changed);
    if (rank == 0 && step == HELD)
        wait_for_others(gate);
    gate->begun[rank] = step;
    pthread_mutex_unlock(&gate->mutex);
}

/* Rank 0 of eight ranks is late. All ranks that are not its neighbours can complete the step,
 * because a neighbour that waits for rank 0 has already sent its own messages. */
static const struct {
    const char *exchange;
    int ahead;
} holdings[] = {
    { "allreduce", 0 },   { "topk:0.1", 0 },        { "gossip:ring", 5 }, { "gossip:exp", 2 },
    { "gossip:grid", 4 }, { "gossip:one-peer", 5 }, { "local:4", 7 },
};

START_TEST(a_slow_rank_delays_only_its_neighbours)
{
    if (is_spared(_i, 1))
        return;
    char layout[60];
    struct exchange exchange;
    struct err err = { 0 };
    struct model model = parity_llama();
    struct gate gate = { .mutex = PTHREAD_MUTEX_INITIALIZER,
                         .changed = PTHREAD_COND_INITIALIZER,
                         .exchange = &exchange,
                         .ahead = holdings[_i].ahead };
    struct parity_run run = adam(4);
    struct parity_result held, free;
    ck_assert(exchange_read(holdings[_i].exchange, &exchange, &err));
    snprintf(layout, sizeof layout, "dp8 mb1 exchange=%s", holdings[_i].exchange);
    parity_run(&model, layout, &run, &free);
    run.at_step = come_to_step;
    run.context = &gate;
    parity_run(&model, layout, &run, &held);
    ck_assert_msg(!gate.came_in_vain, "%s: others waited for rank 0", layout);
    ck_assert_msg(!gate.was_overtaken, "%s: a rank did not wait for a rank from which it receives",
                  layout);
    ck_assert(parity_is_equal(&held, &free, run.steps));
    parity_release(&held);
    parity_release(&free);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("train");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, one_data_rank_sends_0_bytes_and_an_unknown_count_is_negative);
    tcase_add_loop_test(tc, exact_methods_equal_all_reduce, 0, LENGTH(alike));
    tcase_add_loop_test(tc, every_method_lowers_the_loss_and_sends_the_planned_bytes, 0,
                        LENGTH(layouts));
    tcase_add_loop_test(tc, data_ranks_send_the_bytes_of_the_instruction_list, 0, LENGTH(reduced));
    tcase_add_loop_test(tc, with_16_bit_weights_the_fp32_masters_are_averaged, 0, LENGTH(rounded));
    tcase_add_loop_test(tc, repeated_runs_of_an_exchange_have_the_same_bits, 0, LENGTH(layouts));
    tcase_add_test(tc, two_hostile_ranks_of_eight_stop_learning_with_all_reduce_only);
    tcase_add_test(tc, krum_does_not_learn_with_noisy_gradients_and_too_many_zero_senders);
    tcase_add_loop_test(tc, a_slow_rank_delays_only_its_neighbours, 0, LENGTH(holdings));
    Suite *s = suite_create("exec/rank_exchange");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
