/* Tests the parity tests: each fault injected into a run of several ranks must change its result,
 * compared with one rank. Faults replace functions in the tables of communicator and kernels. Ranks
 * are threads and, with MPI, also processes. */
#include "tests/exec/mpirun.h"

/* --- groups ------------------------------------------------------------------------------- */

/* The rank of this process, if mpirun has started it. */
static struct parity_process process;
static const struct comm_api *whole = &comm_local; /* the functions without a fault */

/* Number of groups that this thread (rank) has made. Groups are made in the order of their kinds
 * (tensor, context, data, ...). */
static _Thread_local int num_groups;
static _Thread_local struct group *groups[NUM_GROUP_KINDS];

static struct group *new_group(struct comm *comm, const int *ranks, int count, struct err *err)
{
    struct group *group = whole->group_new(comm, ranks, count, err);
    if (num_groups < NUM_GROUP_KINDS)
        groups[num_groups++] = group;
    return group;
}

static struct comm_api with_issue(void (*issue)(const struct comm_call *call))
{
    struct comm_api api = *whole;
    api.group_new = new_group;
    api.issue = issue;
    return api;
}

/* --- faults of the communicator ----------------------------------------------------------- */

static void drop_tied_sum(const struct comm_call *call)
{
    if (call->group != groups[GROUP_EMBEDDING])
        whole->issue(call);
}

/* Fault: skips all-reduces over tensor ranks that have the length of a norm's gradient. Only
 * sequence parallelism has such sums. */
static void drop_partial_sum(const struct comm_call *call)
{
    bool is_sum = call->kind == COMM_ALL_REDUCE && call->reduction == REDUCTION_SUM;
    if (call->group != groups[GROUP_TENSOR] || !is_sum || call->count != 32)
        whole->issue(call);
}

static void drop_data_sum(const struct comm_call *call)
{
    if (call->group != groups[GROUP_DATA] || call->kind != COMM_ALL_REDUCE)
        whole->issue(call);
}

/* --- faults of kernels -------------------------------------------------------------------- */

static void forget_scale(struct kernels *kernels, struct stream *stream,
                         const struct loss_gradient *args)
{
    struct loss_gradient wrong = *args;
    static const float one = 1;
    wrong.scale = &one;
    kernels_host.loss_gradient(kernels, stream, &wrong);
}

/* Fault: dropout is drawn for the index of a row in this rank's batch instead of the index in the
 * global batch. This is correct only on one rank. */
static void draw_own_rows(struct kernels *kernels, struct stream *stream,
                          const struct residual_args *args)
{
    struct residual_args wrong = *args;
    wrong.residual.seq = 0;
    kernels_host.residual(kernels, stream, &wrong);
}

static void draw_own_heads(struct kernels *kernels, struct stream *stream,
                           const struct flash_forward *args)
{
    struct flash_forward wrong = *args;
    wrong.attention.dropout.first_head = 0;
    kernels_host.flash_forward(kernels, stream, &wrong);
}

/* --- comparison with one rank ------------------------------------------------------------- */

enum fault { NO_FAULT, TIED, PARTIAL, DATA, SCALE, ROWS, HEADS, NUM_FAULTS };

static const struct {
    const char *layout;
    double dropout;
} cases[NUM_FAULTS] = {
    [NO_FAULT] = { "tp2 sp pp2 dp2 mb4", 0.2 },
    [TIED] = { "pp2 mb4", 0 },
    [PARTIAL] = { "tp2 sp mb4", 0 },
    [DATA] = { "dp2 mb4", 0 },
    [SCALE] = { "dp2 mb4", 0 },
    [ROWS] = { "dp2 mb4", 0.2 },
    [HEADS] = { "tp2 mb4", 0.2 },
};

static void put_in(enum fault fault, struct comm_api *comm, struct kernel_api *kernels)
{
    static void (*const issues[NUM_FAULTS])(const struct comm_call *) = {
        [TIED] = drop_tied_sum, [PARTIAL] = drop_partial_sum, [DATA] = drop_data_sum
    };
    *comm = issues[fault] ? with_issue(issues[fault]) : *whole;
    *kernels = kernels_host;
    if (fault == SCALE)
        kernels->loss_gradient = forget_scale;
    if (fault == ROWS)
        kernels->residual = draw_own_rows;
    if (fault == HEADS)
        kernels->flash_forward = draw_own_heads;
}

static void check_fault(enum fault fault, const char *layout, double dropout)
{
    struct model model = parity_gpt();
    struct parity_run run = { .steps = 2, .optimizer = OPTIMIZER_SGD, .rate = 0.5F, .seed = 7 };
    struct comm_api comm;
    struct kernel_api kernels;
    struct parity_result one, many;
    model.dropout = dropout;
    parity_run(&model, "mb4", &run, &one);
    put_in(fault, &comm, &kernels);
    run.comm = &comm;
    run.kernels = &kernels;
    run.process = process.comm ? &process : NULL;
    num_groups = 0;
    parity_run(&model, layout, &run, &many);
    struct parity_verdict verdict = parity_compare(&run, &one, &many);
    ck_assert_msg(verdict.agrees == (fault == NO_FAULT), "fault %d, %s: %s", (int)fault, layout,
                  verdict.difference);
    parity_release(&one);
    parity_release(&many);
}

START_TEST(an_injected_fault_is_detected)
{
    check_fault((enum fault)_i, cases[_i].layout, cases[_i].dropout);
}
END_TEST

START_TEST(each_injected_fault_is_detected_over_mpi)
{
    whole = process.api;
    check_fault(NO_FAULT, "tp2 sp mb4", 0.2);
    check_fault(NO_FAULT, "pp2 mb4", 0.2);
    for (int fault = NO_FAULT + 1; fault < NUM_FAULTS; fault++)
        check_fault((enum fault)fault, cases[fault].layout, cases[fault].dropout);
}
END_TEST

START_TEST(mpi_ranks_detect_injected_faults)
{
    if (mpirun_is_here())
        mpirun_self(2);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("mutations");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, an_injected_fault_is_detected, 0, NUM_FAULTS);
    tcase_add_test(tc, mpi_ranks_detect_injected_faults);
    Suite *s = suite_create("exec/mutations");
    suite_add_tcase(s, tc);
    return s;
}

static void add_rank_tests(TCase *tc)
{
    tcase_add_test(tc, each_injected_fault_is_detected_over_mpi);
}

int main(void)
{
    return mpirun_main(&process, suite, add_rank_tests);
}
