/* Tests of base/core_share.h with made-up counts of a process's threads. */
#include "base/core_share.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The counts that the kernel keeps of a thread: seconds that it ran, seconds that it was ready but
 * had no core, and the number of its time slices. */
struct thread_time {
    double ran_s, ready_s, slices;
};

static void write_thread(const char *folder, int id, const struct thread_time *time)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%d", folder, id);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%d/schedstat", folder, id);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "%.0f %.0f %.0f\n", 1e9 * time->ran_s, 1e9 * time->ready_s, time->slices);
    fclose(file);
}

static struct core_time time_of(const struct thread_time threads[2])
{
    char folder[] = "/tmp/test_core_share.XXXXXX", path[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < 2; i++)
        write_thread(folder, i, &threads[i]);
    struct core_time out = core_time_read(folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%d/schedstat", folder, i);
        unlink(path);
        snprintf(path, sizeof path, "%s/%d", folder, i);
        rmdir(path);
    }
    rmdir(folder);
    return out;
}

/* Each thread starts with 1 s of running, 0.5 s of waiting for a core, and 10 time slices. The rows
 * have the values at the end. */
static const struct {
    const char *what;
    struct thread_time after[2];
    double share;
} cases[] = {
    { "no other program wanted the cores", { { 3, 0.5, 10 }, { 1, 0.5, 10 } }, 1 },
    { "another program had half of each core", { { 2, 1.5, 10 }, { 1, 0.5, 10 } }, 0.5 },
    { "both threads shared one core", { { 1.6, 1.4, 10 }, { 1.4, 9.6, 10 } }, 1 / (1 + 10.0) },
    { "a thread waited for peers and woke 10,000 times, each time in 20 us",
      { { 1.2, 0.7, 10010 }, { 1, 0.5, 10 } },
      1 },
    { "a thread woke as often, and each time waited 250 us for a core",
      { { 3, 3, 10010 }, { 1, 0.5, 10 } },
      0.5 },
    { "no thread ran", { { 1, 0.5, 10 }, { 1, 0.5, 10 } }, 1 },
};

START_TEST(time_of_other_processes_lowers_the_share)
{
    static const struct thread_time start[2] = { { 1, 0.5, 10 }, { 1, 0.5, 10 } };
    struct core_time before = time_of(start), after = time_of(cases[_i].after);
    double share = core_share(&before, &after);
    ck_assert_msg(share > cases[_i].share - 1e-9 && share < cases[_i].share + 1e-9,
                  "%s: %g, expected %g", cases[_i].what, share, cases[_i].share);
}
END_TEST

START_TEST(a_system_without_counts_is_not_called_quiet)
{
    struct core_time none = core_time_read("/tmp/no such folder"), now = { .is_known = true };
    ck_assert(!none.is_known);
    ck_assert(core_share(&none, &now) < 0 && core_share(&now, &none) < 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tcase = tcase_create("core_share");
    tcase_add_loop_test(tcase, time_of_other_processes_lowers_the_share, 0, LENGTH(cases));
    tcase_add_test(tcase, a_system_without_counts_is_not_called_quiet);
    Suite *s = suite_create("base/core_share");
    suite_add_tcase(s, tcase);
    return s;
}

TEST_MAIN(suite)
