#include "tests/testing.h"

#include "base/file.h"
#include "exec/run/lane_status.h"
#include "exec/run/rank_state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The functions of a device whose streams reach every mark at once. */
static void post_now(struct stream *stream, _Atomic uint32_t *word, uint32_t number)
{
    (void)stream;
    atomic_store(word, number);
}

static void *alloc(struct device *device, size_t bytes, struct err *err)
{
    (void)device, (void)err;
    return malloc(bytes);
}

static void release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static const struct device_api at_once = { .post = post_now,
                                           .pinned_alloc = alloc,
                                           .pinned_free = release };

/* Stage 1 of 3 is rank 6. It receives from rank 4 and sends gradients to it. */
static const int down_ranks[] = { 4, 6 }, up_ranks[] = { 6, 4 };
static struct instr instructions[] = {
    { .op = INSTR_RECV_ACT, .chunk = 1, .microbatch = 0, .peer = 0 },
    { .op = INSTR_FORWARD, .chunk = 1, .microbatch = 0, .peer = -1 },
    { .op = INSTR_BACKWARD, .chunk = 1, .microbatch = 12, .peer = -1 },
    { .op = INSTR_SEND_GRAD, .chunk = 1, .microbatch = 12, .peer = 0 },
    { .op = INSTR_REDUCE_GRAD, .chunk = 1, .microbatch = -1, .peer = -1 },
    { .op = INSTR_OPTIMIZER, .chunk = -1, .microbatch = -1, .peer = -1 },
};
static const char *const names[] = { "RECV_ACT c1 mb0 from 4", "FORWARD c1 mb0", "BACKWARD c1 mb12",
                                     "SEND_GRAD c1 mb12 to 4", "REDUCE_GRAD c1", "OPTIMIZER" };

static char path[64];

static void do_not_stop(void *context)
{
    (void)context;
}

/* The report of all lanes, which the caller frees. */
static char *report_of(struct watchdog *watchdog)
{
    struct err err = { 0 };
    watchdog_report(watchdog, "asked");
    char *text = file_read(path, 1000, NULL, &err);
    ck_assert_msg(text, "%s", err.msg);
    return text;
}

static void check_report(struct watchdog *watchdog, const char *name)
{
    char expected[100] = "rank 6: asked\n";
    if (name)
        snprintf(expected, sizeof expected, "rank 6: asked\nrank 6 waits %s\n", name);
    char *text = report_of(watchdog);
    ck_assert_str_eq(text, expected);
    free(text);
}

/* In three steps, one instruction after another begins and ends. While an instruction runs, the
 * report has only its name; after it has ended, the report has no name. */
START_TEST(a_lane_waits_for_an_instruction_from_its_begin_to_its_end)
{
    struct err err = { 0 };
    snprintf(path, sizeof path, "/tmp/test_lane_status.%d", (int)getpid());
    struct watchdog *watchdog =
        watchdog_new(&(struct watchdog_options){ .rank = 6,
                                                 .num_lanes = NUM_WATCHED_LANES,
                                                 .status_path = path,
                                                 .describe = lane_status_describe,
                                                 .stop = do_not_stop,
                                                 .grace_s = 60 },
                     &err);
    ck_assert_msg(watchdog, "%s", err.msg);
    struct group down = { .index = 1, .size = 2, .ranks = down_ranks };
    struct group up = { .index = 0, .size = 2, .ranks = up_ranks };
    struct instrs list = { .at = instructions, .count = LENGTH(instructions) };
    struct rank rank = { .on = { .api = &at_once, .watchdog = watchdog }, .list = &list };
    rank.groups.of[GROUP_RECV_DOWN] = &down;
    rank.groups.of[GROUP_SEND_UP] = &up;
    ck_assert(lane_status_open(&rank, &err));
    check_report(watchdog, NULL);
    for (rank.steps_begun = 1; rank.steps_begun <= 3; rank.steps_begun++)
        for (int i = 0; i < list.count; i++) {
            lane_status_begin(&rank, NULL, i);
            check_report(watchdog, names[i]);
            lane_status_end(&rank, NULL, i);
            check_report(watchdog, NULL);
        }
    lane_status_close(&rank);
    lane_status_wait(watchdog, "all streams");
    check_report(watchdog, "all streams");
    watchdog_free(watchdog);
    arena_release(&rank.arena);
    unlink(path);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("lane status");
    tcase_set_tags(tc, THREADS);
    tcase_add_test(tc, a_lane_waits_for_an_instruction_from_its_begin_to_its_end);
    Suite *s = suite_create("exec/run/lane_status");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
