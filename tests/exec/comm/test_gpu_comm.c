/* Tests the communicators of GPUs on simulated GPUs (tests/cuda_on_host). Ranks are threads; NCCL's
 * ranks meet in shared memory. */
#include "exec/plugin/backend.h"
#include "tests/draw.h"
#include "tests/exec/comm/comm_cases.h"
#include "tests/exec/plugin_on_host.h"
#include "tests/exec/rank_job.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const comms[] = { "nccl", "staged" };
enum { NUM_COMMS = LENGTH(comms), MOST_RANKS = 4 };

static bool is_there;

static void set_up(void)
{
    is_there = plugin_on_host_choose();
}

static void run_on_gpus(const char *comm, int size,
                        bool (*run)(struct rank_job *job, const struct comm_options *options))
{
    struct err err = { 0 };
    if (!is_there)
        return;
    const struct backend *cuda = backend_find("cuda", &err);
    const struct comm_api *api = comm_find(comm, &err);
    ck_assert_msg(cuda && api, "%s: %s", err.where, err.msg);
    rank_job_run((struct rank_job){
        .api = api, .device = cuda->device, .size = size, .seed = told_seed(), .run = run });
}

/* --- comparison with a plain loop ----------------------------------------------------------- */

static bool run_cases(struct rank_job *job, const struct comm_options *options)
{
    return comm_cases_run(job->api, options, job->seed, 48);
}

START_TEST(every_call_equals_a_plain_loop)
{
    for (int size = 1; size <= MOST_RANKS; size++)
        run_on_gpus(comms[_i], size, run_cases);
}
END_TEST

/* --- one rank's calls ----------------------------------------------------------------------- */

struct side {
    const struct comm_api *api;
    const struct device_api *device_api;
    struct device *device;
    const struct kernel_api *kernel_api;
    struct kernels *kernels;
    struct stream *stream;
    struct comm *comm;
    int rank, size;
};

static bool side_open(struct rank_job *job, const struct comm_options *options, struct side *out)
{
    struct err err = { 0 };
    *out = (struct side){ .api = job->api,
                          .device_api = options->device,
                          .kernel_api = backend_find("cuda", &err)->kernels,
                          .rank = options->place->rank,
                          .size = job->size };
    return (out->device =
                options->device->open(&(struct device_options){ .local_rank = out->rank }, &err)) &&
           (out->kernels = out->kernel_api->open(out->device, DTYPE_FP32, &err)) &&
           (out->stream = options->device->stream_new(out->device, "side", &err)) &&
           (out->comm = job->api->open(options, &err));
}

static void side_close(struct side *side)
{
    side->device_api->stream_free(side->stream);
    side->api->close(side->comm);
    side->kernel_api->close(side->kernels);
    side->device_api->close(side->device);
}

static struct group *new_world(const struct side *side)
{
    struct err err = { 0 };
    int ranks[MOST_RANKS];
    for (int i = 0; i < side->size; i++)
        ranks[i] = i;
    return side->api->group_new(side->comm, ranks, side->size, &err);
}

static void sum(const struct side *side, struct group *group, double *value)
{
    side->api->issue(&(struct comm_call){ .kind = COMM_ALL_REDUCE,
                                          .group = group,
                                          .stream = side->stream,
                                          .in = value,
                                          .out = value,
                                          .count = 1,
                                          .element = ELEMENT_FP64 });
}

/* --- memory --------------------------------------------------------------------------------- */

/* Runs the first matrix product of these sizes, so the product is tuned while sums are running. */
static bool multiply(const struct side *side, long rows, struct err *err)
{
    static const float ones[16] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    float sums[16] = { 0 };
    side->kernel_api->linear_weight_gradient(
        side->kernels, side->stream,
        &(struct linear_weight_gradient){
            .rows = rows, .out = 4, .in = 4, .dy = ones, .x = ones, .dweight = sums });
    return side->device_api->stream_sync(side->stream, err) && sums[15] == (float)rows;
}

static bool sum_ever_more(const struct side *side, struct group *group, struct err *err)
{
    enum { MOST = 1 << 12 };
    static double zeros[MOST_RANKS][MOST];
    for (size_t count = 1; count <= MOST; count *= 2)
        side->api->issue(&(struct comm_call){ .kind = COMM_ALL_REDUCE,
                                              .group = group,
                                              .stream = side->stream,
                                              .in = zeros[side->rank],
                                              .out = zeros[side->rank],
                                              .count = count,
                                              .element = ELEMENT_FP64 });
    return side->device_api->stream_sync(side->stream, err);
}

/* Rank 0 receives a message that rank 1 sends last. Rank 0 has already run a product, as loading
 * kernels may wait for the GPU. */
static bool work_beside_a_receive(struct rank_job *job, const struct comm_options *options)
{
    struct err err = { 0 };
    struct side side;
    double value = 3;
    if (!side_open(job, options, &side))
        return false;
    struct group *message = new_world(&side), *world = new_world(&side);
    struct stream *stream = side.device_api->stream_new(side.device, "message", &err);
    struct comm_call call = { .kind = side.rank == 0 ? COMM_RECV : COMM_SEND,
                              .group = message,
                              .stream = stream,
                              .in = &value,
                              .out = &value,
                              .count = 1,
                              .element = ELEMENT_FP64,
                              .peer = 1 - side.rank };
    bool ok = multiply(&side, 2, &err);
    if (side.rank == 0)
        side.api->issue(&call);
    ok = ok && (side.rank == 1 || multiply(&side, 4, &err)) && sum_ever_more(&side, world, &err);
    if (side.rank == 1)
        side.api->issue(&call);
    ok = side.device_api->stream_sync(stream, &err) && ok && value == 3;
    side.device_api->stream_free(stream);
    side.api->group_free(message);
    side.api->group_free(world);
    side_close(&side);
    return ok;
}

START_TEST(tuning_and_larger_messages_do_not_wait_for_a_receive)
{
    run_on_gpus(comms[_i], 2, work_beside_a_receive);
}
END_TEST

/* --- failures and ends ---------------------------------------------------------------------- */

static bool abort_sums(const struct side *side, struct group *groups[2], double values[2])
{
    struct err err = { 0 };
    if (!groups[0] || !groups[1])
        return false;
    for (int i = 0; i < 2; i++)
        sum(side, groups[i], &values[i]);
    side->api->abort(side->comm);
    side->device_api->abort(side->device);
    return !side->api->poll(side->comm, &err);
}

/* Rank 1 never calls, so the first sum waits for rank 1, and the second sum waits for the first. */
static bool abort_two_sums(struct rank_job *job, const struct comm_options *options)
{
    struct side side;
    double values[] = { 1, 2 }; /* must stay valid until the stream is freed */
    if (!side_open(job, options, &side))
        return false;
    struct group *groups[] = { new_world(&side), new_world(&side) };
    bool ok = side.rank > 0 || abort_sums(&side, groups, values);
    for (int i = 0; i < 2; i++)
        side.api->group_free(groups[i]);
    side_close(&side);
    return ok;
}

START_TEST(an_abort_ends_calls_that_wait_for_each_other)
{
    run_on_gpus(comms[_i], 2, abort_two_sums);
}
END_TEST

static bool wait_for_failure(const struct side *side, struct err *err)
{
    for (int tries = 0; side->api->poll(side->comm, err); tries++)
        if (tries == 5000)
            return false;
        else
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return true;
}

/* Issues two sums: all ranks call the first, but rank 1 does not call the second. */
static bool lose_the_other(struct rank_job *job, const struct comm_options *options)
{
    struct err err = { 0 };
    struct side side;
    double value = 1;
    if (!side_open(job, options, &side))
        return false;
    struct group *world = new_world(&side);
    bool ok = world != NULL;
    if (ok) {
        sum(&side, world, &value);
        ok = side.device_api->stream_sync(side.stream, &err);
    }
    if (ok && side.rank == 0) {
        sum(&side, world, &value);
        ok = wait_for_failure(&side, &err) && strstr(err.msg, "a rank is gone");
    }
    if (side.rank == 1)
        side.api->abort(side.comm);
    side.api->group_free(world);
    side_close(&side);
    return ok;
}

START_TEST(a_failure_names_the_cause_that_nccl_stores_separately)
{
    run_on_gpus("nccl", 2, lose_the_other);
}
END_TEST

/* Rank 1 makes its group only after the time limit of the other ranks. */
static bool split_late(struct rank_job *job, const struct comm_options *options)
{
    struct side side;
    struct comm_options impatient = *options;
    impatient.patience_s = 0.3;
    if (!side_open(job, &impatient, &side))
        return false;
    if (side.rank == 1)
        nanosleep(&(struct timespec){ .tv_nsec = 600000000 }, NULL);
    bool ok = !new_world(&side);
    side_close(&side);
    return ok;
}

START_TEST(a_group_that_some_ranks_do_not_make_times_out)
{
    run_on_gpus("nccl", 2, split_late);
}
END_TEST

/* Each rank first frees its group with the next rank, so all orders differ. */
static bool free_round_a_ring(struct rank_job *job, const struct comm_options *options)
{
    struct err err = { 0 };
    struct side side;
    struct group *groups[MOST_RANKS] = { NULL };
    if (!side_open(job, options, &side))
        return false;
    for (int i = 0; i < side.size; i++) {
        int next = (i + 1) % side.size, ends[] = { i, next };
        bool is_in = side.rank == i || side.rank == next;
        groups[i] = side.api->group_new(side.comm, ends, is_in ? 2 : 0, &err);
    }
    for (int i = 0; i < side.size; i++)
        side.api->group_free(groups[(side.rank + i) % side.size]);
    side_close(&side);
    return err.code == ERR_NONE;
}

START_TEST(ranks_may_free_groups_in_different_orders)
{
    run_on_gpus(comms[_i], 3, free_round_a_ring);
}
END_TEST

/* --- the driver ----------------------------------------------------------------------------- */

START_TEST(each_stream_has_a_hardware_queue_unless_the_user_sets_the_number)
{
    const char *wanted[] = { "1", "32" };
    struct err err = { 0 };
    if (!is_there)
        return;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(backend_find("cuda", &err), "%s: %s", err.where, err.msg);
        ck_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), wanted[i]);
        unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("gpu_comm");
    tcase_set_tags(cases, THREADS);
    tcase_add_unchecked_fixture(cases, set_up, NULL);
    tcase_add_loop_test(cases, every_call_equals_a_plain_loop, 0, NUM_COMMS);
    tcase_add_loop_test(cases, tuning_and_larger_messages_do_not_wait_for_a_receive, 0, NUM_COMMS);
    tcase_add_loop_test(cases, an_abort_ends_calls_that_wait_for_each_other, 0, NUM_COMMS);
    tcase_add_test(cases, a_failure_names_the_cause_that_nccl_stores_separately);
    tcase_add_test(cases, a_group_that_some_ranks_do_not_make_times_out);
    tcase_add_loop_test(cases, ranks_may_free_groups_in_different_orders, 0, NUM_COMMS);
    tcase_add_test(cases, each_stream_has_a_hardware_queue_unless_the_user_sets_the_number);
    Suite *s = suite_create("exec/gpu_comm");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
