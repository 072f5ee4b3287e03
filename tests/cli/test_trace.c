#include "tests/testing.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/timeline/gantt.h"
#include "cli/timeline/trace.h"
#include "sim/engine/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An interleaved schedule with two stages, two chunks per stage, two microbatches and a data group:
 * forward 1 s, backward 2 s, messages 0.25 s, reductions 1 s on another wire, update 0.5 s. */
static const struct chunk_cost chunks[4] = {
    { 1, 0, 1, 1, 0 }, { 1, 0, 1, 1, 0 }, { 1, 0, 1, 1, 0 }, { 1, 0, 1, 1, 0 }
};
static const struct stage_cost stages[2] = { { .reduce_s = 1, .optimizer_s = 0.5 },
                                             { .reduce_s = 1, .optimizer_s = 0.5 } };
static const struct boundary boundaries[2] = { { .message_s = 0.25 }, { .message_s = 0.25 } };
static const struct step_cost cost = { .chunks = chunks,
                                       .stages = stages,
                                       .boundaries = boundaries,
                                       .data_wire = WIRE_NETWORK,
                                       .slowdowns = { 1, 1 } };

static struct arena arena;
static struct timeline *timeline;
static json_t *root;
static json_t *events;

static struct timeline *run(const char *generator, struct schedule_shape shape)
{
    struct err err = { 0 };
    struct lowering lowering = { .has_data_group = true };
    struct schedule *schedule =
        schedule_new(generator_find(generator), &shape, &lowering, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    struct timeline *found = events_run(schedule, &cost, &arena, &err);
    ck_assert_msg(found != NULL, "%s: %s", err.where, err.msg);
    return found;
}

static void set_up(void)
{
    static char path[] = "/tmp/test_trace.XXXXXX";
    struct err err = { 0 };
    struct stage_memory memory[2] = { { .activations_bytes = 4000 },
                                      { .activations_bytes = 3000 } };
    struct prediction prediction = { .num_stages = 2, .stages = memory };
    timeline = run("interleaved", (struct schedule_shape){ 2, 2, 2, 0 });
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    json_t *about = json_pack("{s:s}", "model", "a \"quoted\" name");
    bool ok = trace_write(path, timeline, &prediction, about, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    json_decref(about);
    root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    unlink(path);
    ck_assert_ptr_nonnull(root);
    events = json_object_get(root, "traceEvents");
}

static void tear_down(void)
{
    json_decref(root);
    arena_release(&arena);
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static bool has_phase(const json_t *event, const char *phase)
{
    return strcmp(text_of(event, "ph"), phase) == 0;
}

START_TEST(the_file_has_the_format_of_perfetto)
{
    ck_assert(json_is_array(events));
    ck_assert_str_eq(text_of(root, "displayTimeUnit"), "ms");
    ck_assert_str_eq(text_of(json_object_get(root, "otherData"), "model"), "a \"quoted\" name");
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        ck_assert(json_is_string(json_object_get(event, "name")));
        ck_assert(json_is_string(json_object_get(event, "ph")));
        ck_assert(json_is_number(json_object_get(event, "ts")));
        ck_assert(json_is_integer(json_object_get(event, "pid")));
        ck_assert(json_is_integer(json_object_get(event, "tid")));
        ck_assert(has_phase(event, "X") == (json_object_get(event, "dur") != NULL));
    }
}
END_TEST

/* Each instruction of a stage that takes time is a slice, with times in microseconds. */
START_TEST(every_instruction_that_takes_time_is_a_slice)
{
    size_t i;
    json_t *event;
    int slices = 0;
    json_array_foreach (events, i, event) {
        if (!has_phase(event, "X"))
            continue;
        int stage = (int)number_of(event, "pid");
        int at = (int)number_of(json_object_get(event, "args"), "instruction");
        const struct instr *instr = &timeline->schedule->ranks[stage].at[at];
        struct interval time = timeline->ranks[stage][at];
        ck_assert_int_eq((int)number_of(event, "tid"), (int)opcode_infos[instr->op].lane);
        ck_assert_double_eq_tol(number_of(event, "ts"), time.start_s * 1e6, 1e-3);
        ck_assert_double_eq_tol(number_of(event, "dur"), (time.end_s - time.start_s) * 1e6, 2e-3);
        slices++;
    }
    int expected = 0;
    for (int stage = 0; stage < 2; stage++)
        for (int at = 0; at < timeline->schedule->ranks[stage].count; at++)
            expected += timeline->ranks[stage][at].end_s > timeline->ranks[stage][at].start_s;
    ck_assert_int_eq(slices, expected);
}
END_TEST

START_TEST(slices_are_named_by_chunk_and_microbatch)
{
    size_t i;
    json_t *event;
    int found = 0;
    json_array_foreach (events, i, event) {
        const char *name = text_of(event, "name");
        found +=
            has_phase(event, "X") && (strcmp(name, "F3.1") == 0 || strcmp(name, "SA0.1") == 0 ||
                                      strcmp(name, "B0.0") == 0 || strcmp(name, "DG2") == 0);
        found += has_phase(event, "X") && strcmp(name, "OPT") == 0;
    }
    ck_assert_int_eq(found, 4 + 2);
}
END_TEST

/* Perfetto drops slices that overlap partially. */
START_TEST(slices_of_a_lane_do_not_overlap)
{
    double free_us[2][NUM_LANES] = { 0 };
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        if (!has_phase(event, "X"))
            continue;
        double *free_at = &free_us[(int)number_of(event, "pid")][(int)number_of(event, "tid")];
        ck_assert_double_ge(number_of(event, "ts"), *free_at - 1e-4);
        *free_at = number_of(event, "ts") + number_of(event, "dur");
    }
}
END_TEST

static json_t *arrow_end(double id)
{
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        if (has_phase(event, "f") && number_of(event, "id") == id)
            return event;
    }
    return NULL;
}

/* Messages cross 3 boundaries between 4 chunks, for 2 microbatches, in both directions. */
START_TEST(every_send_has_an_arrow_to_its_receive)
{
    size_t i;
    json_t *event;
    int arrows = 0;
    json_array_foreach (events, i, event) {
        if (!has_phase(event, "s"))
            continue;
        json_t *end = arrow_end(number_of(event, "id"));
        ck_assert_ptr_nonnull(end);
        ck_assert_double_ne(number_of(end, "pid"), number_of(event, "pid"));
        ck_assert_double_ge(number_of(end, "ts"), number_of(event, "ts"));
        ck_assert_str_eq(text_of(end, "bp"), "e");
        arrows++;
    }
    ck_assert_int_eq(arrows, 3 * 2 * 2);
}
END_TEST

START_TEST(the_memory_counter_rises_to_the_peak_and_falls_to_0)
{
    double last[2] = { -1, -1 }, most[2] = { 0, 0 };
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        if (!has_phase(event, "C"))
            continue;
        int stage = (int)number_of(event, "pid");
        last[stage] = number_of(json_object_get(event, "args"), "bytes");
        most[stage] = fmax(most[stage], last[stage]);
    }
    ck_assert_double_eq(most[0], 4000);
    ck_assert_double_eq(most[1], 3000);
    ck_assert_double_eq(last[0], 0);
    ck_assert_double_eq(last[1], 0);
}
END_TEST

START_TEST(stages_and_lanes_have_names)
{
    size_t i;
    json_t *event;
    int processes = 0, threads = 0;
    json_array_foreach (events, i, event) {
        if (!has_phase(event, "M"))
            continue;
        processes += strcmp(text_of(event, "name"), "process_name") == 0;
        threads += strcmp(text_of(event, "name"), "thread_name") == 0;
    }
    ck_assert_int_eq(processes, 2);
    ck_assert_int_eq(threads, 2 * NUM_LANES);
}
END_TEST

/* --- the picture --------------------------------------------------------------------------- */

static char *picture(const char *generator, struct schedule_shape shape, bool utf8, int columns)
{
    struct terminal terminal = { .utf8 = utf8 };
    struct text out = { 0 };
    gantt_add(&terminal, run(generator, shape), columns, &out);
    return out.at;
}

/* 2 stages, 2 microbatches, forward 1 s, backward 2 s, messages 0.25 s. Stage 1 receives its first
 * activations at 1.25 s, and stage 0 its last gradients at 7.5 s. With reductions of 1 s and the
 * update of 0.5 s the step takes 11 s. A column is 0.5 s. */
START_TEST(a_row_shows_what_a_stage_computes_in_each_column)
{
    char *rows = picture("1f1b", (struct schedule_shape){ 2, 1, 2, 0 }, false, 12 + 22);
    ck_assert_str_eq(rows, "  stage 0   0011.....aaaa..bbbb==o\n"
                           "  stage 1   ..00aaaa11bbbb==.....o\n"
                           "            0               11.0 s\n");
    free(rows);
}
END_TEST

/* Each stage has two chunks, whose passes take half as long. The number of a pass's chunk is
 * printed below the pass; nothing is printed below idle time, reductions and the update. */
START_TEST(each_pass_has_the_number_of_its_chunk_below_it)
{
    char *rows = picture("interleaved", (struct schedule_shape){ 2, 2, 2, 0 }, false, 60);
    char *line = strtok(rows, "\n");
    for (int stage = 0; stage < 2; stage++) {
        const char *passes = line, *numbers = strtok(NULL, "\n");
        ck_assert(strncmp(passes, "  stage ", 8) == 0);
        ck_assert(strncmp(numbers, "    chunk   ", 12) == 0);
        ck_assert_uint_eq(strlen(passes), strlen(numbers));
        ck_assert(strchr(numbers + 12, '0') && strchr(numbers + 12, '1'));
        for (int i = 12; passes[i]; i++)
            ck_assert_int_eq(strchr(".=o", passes[i]) != NULL, numbers[i] == ' ');
        line = strtok(NULL, "\n");
    }
    free(rows);
}
END_TEST

START_TEST(a_picture_without_utf8_is_ascii)
{
    char *rows = picture("interleaved", (struct schedule_shape){ 2, 2, 2, 0 }, false, 60);
    for (const char *at = rows; *at; at++)
        ck_assert((*at >= ' ' && *at <= '~') || *at == '\n');
    free(rows);
}
END_TEST

START_TEST(rows_fill_the_width_of_the_terminal)
{
    for (int columns = 40; columns < 200; columns += 7) {
        char *rows = picture("zb-h1", (struct schedule_shape){ 2, 1, 6, 0 }, true, columns);
        for (char *row = strtok(rows, "\n"); row; row = strtok(NULL, "\n"))
            ck_assert_int_eq(text_columns(row), columns);
        free(rows);
    }
}
END_TEST

static void release_arena(void)
{
    arena_release(&arena);
}

static Suite *suite(void)
{
    TCase *trace = tcase_create("trace");
    tcase_add_checked_fixture(trace, set_up, tear_down);
    tcase_add_test(trace, the_file_has_the_format_of_perfetto);
    tcase_add_test(trace, every_instruction_that_takes_time_is_a_slice);
    tcase_add_test(trace, slices_are_named_by_chunk_and_microbatch);
    tcase_add_test(trace, slices_of_a_lane_do_not_overlap);
    tcase_add_test(trace, every_send_has_an_arrow_to_its_receive);
    tcase_add_test(trace, the_memory_counter_rises_to_the_peak_and_falls_to_0);
    tcase_add_test(trace, stages_and_lanes_have_names);
    TCase *gantt = tcase_create("gantt");
    tcase_add_checked_fixture(gantt, NULL, release_arena);
    tcase_add_test(gantt, a_row_shows_what_a_stage_computes_in_each_column);
    tcase_add_test(gantt, each_pass_has_the_number_of_its_chunk_below_it);
    tcase_add_test(gantt, a_picture_without_utf8_is_ascii);
    tcase_add_test(gantt, rows_fill_the_width_of_the_terminal);
    Suite *s = suite_create("cli/views/trace, cli/views/gantt");
    suite_add_tcase(s, trace);
    suite_add_tcase(s, gantt);
    return s;
}

TEST_MAIN(suite)
