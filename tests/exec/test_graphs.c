/* Tests that passes that run as graphs (recorded once, then launched as a whole) give the same bits
 * as passes issued op by op. After a few steps all passes run as graphs. */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

static struct parity_run run_of(int steps)
{
    return (struct parity_run){ .steps = steps,
                                .optimizer = OPTIMIZER_ADAM,
                                .rate = 0.01F,
                                .seed = 5,
                                .arena_bytes = 4 << 20 };
}

/* Stores the numbers of issued, captured and replayed passes of the first rank. */
static bool keep_counts(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)err;
    if (rank_machine(rank)->tensor_rank == 0)
        *(struct pass_counts *)run->context = rank_pass_counts(rank);
    return true;
}

static struct parity_run with_graphs(struct parity_run run, struct pass_counts *counts)
{
    run.has_graphs = true;
    run.after = keep_counts;
    run.context = counts;
    return run;
}

/* --- the same bits ------------------------------------------------------------------------ */

static const struct {
    const char *layout;
    bool is_llama, is_unfused;
    double dropout;
    int precision;
} cases[] = {
    { "mb1", false, false, 0.1, PRECISION_FP32 },
    { "mb2", true, false, 0, PRECISION_BF16 },
    { "mb2", false, true, 0.1, PRECISION_FP16 },
    { "mb2 recompute=full", false, false, 0.1, PRECISION_FP32 },
    { "mb2 recompute=selective", false, true, 0.1, PRECISION_BF16 },
    { "mb2 recompute=op-selective", false, false, 0.1, PRECISION_BF16 },
    { "mb2 recompute=full:2", true, false, 0, PRECISION_FP32 },
    { "mb2 recompute=block:1", false, false, 0.1, PRECISION_FP16 },
    { "dp2 mb1", false, false, 0.1, PRECISION_FP32 },
    { "dp2 zero1 mb1", true, true, 0, PRECISION_BF16 },
    { "pp2 mb1", false, false, 0.1, PRECISION_FP32 },
    { "pp2 vpp2 mb2", true, false, 0, PRECISION_FP32 },
    { "pp2 schedule=gpipe mb2", false, false, 0.1, PRECISION_FP32 },
    { "pp2 schedule=zb-h1 mb1", false, true, 0.1, PRECISION_BF16 },
    { "pp2 dp2 zero1 mb1 recompute=full", false, false, 0.1, PRECISION_FP32 },
};
enum { NUM_CASES = LENGTH(cases) };

START_TEST(graphs_change_no_bit)
{
    if (is_spared(_i, 2))
        return;
    struct model model = cases[_i].is_llama ? parity_llama() : parity_gpt();
    struct pass_counts counts = { 0 };
    struct parity_run issued = run_of(4);
    struct parity_result one, other;
    model.dropout = cases[_i].dropout;
    issued.unfused = cases[_i].is_unfused;
    issued.precision = cases[_i].precision;
    struct parity_run replayed = with_graphs(issued, &counts);
    parity_run(&model, cases[_i].layout, &issued, &one);
    parity_run(&model, cases[_i].layout, &replayed, &other);
    ck_assert_msg(parity_is_equal(&one, &other, issued.steps), "%s: results differ with graphs",
                  cases[_i].layout);
    ck_assert_msg(counts.replayed >= counts.issued + counts.captured,
                  "%s: %ld passes were issued, %ld captured and only %ld replayed",
                  cases[_i].layout, counts.issued, counts.captured, counts.replayed);
    parity_release(&one);
    parity_release(&other);
}
END_TEST

/* A pipeline of one stage holds one microbatch at a time. Its forward and its backward are each
 * issued once and captured once. They are captured a second time if different memory is free at the
 * first microbatch of a run than at later ones.
 */
START_TEST(all_microbatches_and_steps_of_one_stage_reuse_one_graph)
{
    enum { STEPS = 5, MICROBATCHES = 8, MOST_GRAPHS = 4 };
    struct model model = parity_gpt();
    struct pass_counts counts = { 0 };
    struct parity_run run = with_graphs(run_of(STEPS), &counts);
    struct parity_result result;
    parity_run(&model, "mb1", &run, &result);
    ck_assert_int_eq(counts.issued + counts.captured + counts.replayed, 2 * STEPS * MICROBATCHES);
    ck_assert_int_le(counts.issued, MOST_GRAPHS);
    ck_assert_int_le(counts.captured, MOST_GRAPHS);
    parity_release(&result);
}
END_TEST

/* --- passes that are not captured --------------------------------------------------------- */

static const char *const refused[] = { "tp2", "tp2 sp", "dp2 zero2", "dp2 zero3" };
enum { NUM_REFUSED = LENGTH(refused) };

START_TEST(passes_that_use_other_streams_are_issued_op_by_op)
{
    struct model model = parity_gpt();
    struct pass_counts counts = { 0 };
    struct parity_run run = with_graphs(run_of(2), &counts);
    struct parity_result result;
    parity_run(&model, refused[_i], &run, &result);
    ck_assert_int_eq(counts.captured + counts.replayed, 0);
    parity_release(&result);
}
END_TEST

static bool take_steps(struct rank *rank, int first, int count, double *losses, struct err *err)
{
    struct step_result result;
    for (int i = 0; i < count; i++) {
        if (!rank_step(rank, first + i, NULL, &result, err))
            return false;
        losses[i] = result.loss;
    }
    return true;
}

/* Runs more steps, after a test has changed something in the rank. */
enum { MORE_STEPS = 4 };
struct more {
    double losses[MORE_STEPS];
    struct pass_counts before, after;
};

/* In every second step another part of the memory is free. */
static bool move_memory(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct more *more = run->context;
    struct machine *m = rank_machine(rank);
    bool ok = true;
    more->before = rank_pass_counts(rank);
    for (int i = 0; i < MORE_STEPS && ok; i += 2) {
        void *memory = machine_take(m, 40000);
        ok = take_steps(rank, run->steps + 1 + i, 1, &more->losses[i], err);
        machine_give_back(m, memory);
        ok = ok && take_steps(rank, run->steps + 2 + i, 1, &more->losses[i + 1], err);
    }
    more->after = rank_pass_counts(rank);
    return ok;
}

START_TEST(a_pass_with_other_memory_addresses_is_captured_again)
{
    struct model model = parity_gpt();
    struct more issued, replayed;
    struct parity_run run = run_of(3);
    struct parity_result result;
    model.dropout = 0.1;
    run.after = move_memory;
    run.context = &issued;
    parity_run(&model, "mb2", &run, &result);
    parity_release(&result);
    run.has_graphs = true;
    run.context = &replayed;
    parity_run(&model, "mb2", &run, &result);
    parity_release(&result);
    ck_assert_int_gt(replayed.after.captured, replayed.before.captured);
    ck_assert_int_gt(replayed.after.replayed, replayed.before.replayed);
    ck_assert_mem_eq(issued.losses, replayed.losses, sizeof issued.losses);
}
END_TEST

static bool time_ops(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct more *more = run->context;
    struct op_time times[10];
    struct op_log log = { times, 0, 10 };
    more->before = rank_pass_counts(rank);
    rank_machine(rank)->log = &log;
    bool ok = take_steps(rank, run->steps + 1, 1, more->losses, err);
    rank_machine(rank)->log = NULL;
    more->after = rank_pass_counts(rank);
    return ok && log.count == log.room;
}

START_TEST(ops_are_timed_without_graphs)
{
    struct model model = parity_gpt();
    struct more more;
    struct parity_run run = run_of(3);
    struct parity_result result;
    run.has_graphs = true;
    run.after = time_ops;
    run.context = &more;
    parity_run(&model, "mb2", &run, &result);
    parity_release(&result);
    ck_assert_int_eq(more.after.replayed, more.before.replayed);
    ck_assert_int_gt(more.after.issued, more.before.issued);
}
END_TEST

/* --- faults ------------------------------------------------------------------------------- */

/* thread-local, because each rank is a thread */
static _Thread_local bool adds_work, moves_memory;

static void norm_and_more(struct kernels *kernels, struct stream *stream,
                          const struct norm_forward *args)
{
    kernels_host.norm_forward(kernels, stream, args);
    if (adds_work)
        kernels_host.norm_forward(kernels, stream, args);
}

/* Allocates memory at another address than that with which the graph was captured. */
static void *alloc_elsewhere(struct device *device, struct stream *stream, size_t bytes,
                             struct err *err)
{
    void *usual = device_host.alloc(device, moves_memory ? NULL : stream, bytes, err);
    if (!moves_memory)
        return usual;
    void *other = device_host.alloc(device, stream, bytes, err);
    device_host.free(device, NULL, usual);
    return other;
}

/* The pass issues the same work twice, so it is captured; then it issues different work, or the
 * same work in other memory. */
static bool expect_refusal(struct rank *rank, const struct parity_run *run, struct err *err)
{
    double loss;
    struct err found = { 0 };
    adds_work = run->kernels != NULL;
    moves_memory = run->device != NULL;
    if (take_steps(rank, run->steps + 1, 1, &loss, &found))
        return err_set(err, ERR_SYSTEM, "graphs", "the fault was not noticed");
    return strcmp(found.where, "graphs") == 0 ||
           err_set(err, ERR_SYSTEM, "graphs", "expected an error at graphs, found %s", found.msg);
}

START_TEST(a_pass_that_differs_from_its_graph_ends_the_run)
{
    struct model model = parity_gpt();
    struct kernel_api kernels = kernels_host;
    struct device_api device = device_host;
    struct parity_run run = run_of(3);
    struct parity_result result;
    kernels.norm_forward = norm_and_more;
    device.alloc = alloc_elsewhere;
    if (_i == 0)
        run.kernels = &kernels;
    else
        run.device = &device;
    run.has_graphs = true;
    run.after = expect_refusal;
    parity_run(&model, "mb2", &run, &result);
    parity_release(&result);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("graphs");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, graphs_change_no_bit, 0, NUM_CASES);
    tcase_add_test(tc, all_microbatches_and_steps_of_one_stage_reuse_one_graph);
    tcase_add_loop_test(tc, passes_that_use_other_streams_are_issued_op_by_op, 0, NUM_REFUSED);
    tcase_add_test(tc, a_pass_with_other_memory_addresses_is_captured_again);
    tcase_add_test(tc, ops_are_timed_without_graphs);
    tcase_add_loop_test(tc, a_pass_that_differs_from_its_graph_ends_the_run, 0, 2);
    Suite *s = suite_create("exec/graphs");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
