#include "base/parallel.h"
#include "tests/testing.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_N = 1000, MAX_JOBS = 16 };

struct visits {
    int count[MAX_N];         /* number of calls with each index */
    int worker[MAX_N];        /* worker that was called last with each index */
    double work[MAX_JOBS][8]; /* data of each worker */
};

static void visit(void *context, size_t index, int worker)
{
    struct visits *visits = context;
    visits->count[index]++;
    visits->worker[index] = worker;
    visits->work[worker][0] += 1;
}

static const struct {
    int jobs;
    size_t n;
    size_t grain;
} loops[] = {
    { 1, 1000, 1 },  { 0, 10, 1 }, { -3, 10, 3 },         { 2, 1000, 1 },    { 4, 1000, 7 },
    { 16, 1000, 1 }, { 8, 3, 1 },  { 4, 1000, 1000 },     { 4, 1000, 999 },  { 4, 1, 1 },
    { 4, 100, 0 },   { 4, 0, 1 },  { 4, 1000, SIZE_MAX }, { 4, 1000, 5000 },
};
enum { NUM_LOOPS = LENGTH(loops) };

START_TEST(every_index_is_visited_once_by_a_worker_in_range)
{
    static struct visits visits;
    int jobs = loops[_i].jobs > 1 ? loops[_i].jobs : 1;
    for (size_t i = 0; i < MAX_N; i++)
        visits.worker[i] = -1;
    parallel_for(loops[_i].jobs, loops[_i].n, loops[_i].grain, visit, &visits);
    for (size_t i = 0; i < MAX_N; i++) {
        ck_assert_int_eq(visits.count[i], i < loops[_i].n);
        ck_assert_int_lt(visits.worker[i], jobs);
        ck_assert(i < loops[_i].n ? visits.worker[i] >= 0 : visits.worker[i] == -1);
    }
}
END_TEST

START_TEST(sums_per_worker_add_up_to_the_total)
{
    static struct visits visits;
    double total = 0;
    parallel_for(8, MAX_N, 3, visit, &visits);
    for (int worker = 0; worker < 8; worker++)
        total += visits.work[worker][0];
    ck_assert_double_eq(total, MAX_N);
}
END_TEST

START_TEST(all_indices_of_a_block_run_on_one_worker)
{
    static struct visits visits;
    parallel_for(4, MAX_N, 10, visit, &visits);
    for (size_t i = 0; i < MAX_N; i++)
        ck_assert_int_eq(visits.worker[i], visits.worker[i / 10 * 10]);
}
END_TEST

struct order {
    size_t seen;
    bool in_order;
    bool same_thread;
    pthread_t caller;
};

static void note_order(void *context, size_t index, int worker)
{
    struct order *order = context;
    order->in_order = order->in_order && index == order->seen++ && worker == 0;
    order->same_thread = order->same_thread && pthread_equal(pthread_self(), order->caller);
}

START_TEST(one_job_runs_in_order_in_the_callers_thread)
{
    struct order order = { .in_order = true, .same_thread = true, .caller = pthread_self() };
    parallel_for(1, 100, 7, note_order, &order);
    ck_assert_uint_eq(order.seen, 100);
    ck_assert(order.in_order);
    ck_assert(order.same_thread);
}
END_TEST

static void invert(void *context, size_t index, int worker)
{
    (void)worker;
    ((double *)context)[index] = 1.0 / (double)(index + 1);
}

/* The rounding of a sum depends on its order. Adding up the results by index fixes this order. */
static double sum_of_inverses(int jobs)
{
    static double parts[MAX_N];
    double sum = 0;
    parallel_for(jobs, MAX_N, 1, invert, parts);
    for (size_t i = 0; i < MAX_N; i++)
        sum += parts[i];
    return sum;
}

START_TEST(the_result_does_not_depend_on_the_number_of_workers)
{
    ck_assert_double_eq(sum_of_inverses(_i), sum_of_inverses(1));
}
END_TEST

START_TEST(a_loop_ends_before_the_next_begins)
{
    static struct visits visits;
    for (int i = 0; i < 50; i++)
        parallel_for(3, 2, 1, visit, &visits);
    ck_assert_int_eq(visits.count[0], 50);
    ck_assert_int_eq(visits.count[1], 50);
}
END_TEST

START_TEST(there_is_at_least_one_core)
{
    ck_assert_int_ge(parallel_cores(), 1);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("parallel");
    tcase_set_tags(tc, THREADS);
    tcase_add_loop_test(tc, every_index_is_visited_once_by_a_worker_in_range, 0, NUM_LOOPS);
    tcase_add_test(tc, sums_per_worker_add_up_to_the_total);
    tcase_add_test(tc, all_indices_of_a_block_run_on_one_worker);
    tcase_add_test(tc, one_job_runs_in_order_in_the_callers_thread);
    tcase_add_loop_test(tc, the_result_does_not_depend_on_the_number_of_workers, 1, MAX_JOBS);
    tcase_add_test(tc, a_loop_ends_before_the_next_begins);
    tcase_add_test(tc, there_is_at_least_one_core);
    Suite *s = suite_create("base/parallel");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
