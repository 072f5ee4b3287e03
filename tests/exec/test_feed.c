/* Tests that the microbatches on the device equal those of the token source, for any order of
 * steps. */
#include "tests/testing.h"

#include "exec/feed.h"
#include "tests/draw.h"

#include <string.h>

enum { SEQ = 24, SEQUENCES = 3, MICROBATCHES = 4, RANKS = 2, RANK = 1, TOKENS = SEQUENCES * SEQ };

static const struct device_api *const host = &device_host;
static const struct token_source source = { .vocab = 1000, .seq = SEQ, .seed = 3 };

/* Compares the values that a pass reads from a microbatch on the device with the expected ones. */
struct seen {
    int64_t ids[TOKENS], targets[TOKENS];
    struct draw_place place;
};

static struct seen expected(uint32_t step, int microbatch)
{
    long first = (long)(microbatch * RANKS + RANK) * SEQUENCES;
    struct seen seen = { .place = { (uint64_t)first, step } };
    tokens_of(&source, step, first, SEQUENCES, seen.ids, seen.targets);
    return seen;
}

static bool is_as_expected(const struct seen *seen, uint32_t step, int microbatch)
{
    struct seen right = expected(step, microbatch);
    return memcmp(seen->ids, right.ids, sizeof right.ids) == 0 &&
           memcmp(seen->targets, right.targets, sizeof right.targets) == 0 &&
           seen->place.first_sequence == right.place.first_sequence &&
           seen->place.step == right.place.step;
}

static void see(struct feed *feed, struct seen *out)
{
    struct stream *compute = feed->setup.compute;
    host->copy(compute, out->ids, feed->now.ids, sizeof out->ids);
    host->copy(compute, out->targets, feed->now.targets, sizeof out->targets);
    host->copy(compute, &out->place, feed->now.place, sizeof out->place);
}

/* Makes the next step's microbatches before it waits for the end of this step, like
 * exec/run/step.c. */
static void run_step(struct feed *feed, uint32_t step, struct seen *seen)
{
    struct err err = { 0 };
    feed_make(feed, step);
    feed_begin_step(feed, step);
    for (int j = 0; j < MICROBATCHES; j++) {
        feed_enter(feed, j);
        see(feed, &seen[j]);
    }
    feed_make(feed, step + 1);
    ck_assert_msg(host->stream_sync(feed->setup.compute, &err), "%s", err.msg);
}

START_TEST(a_pass_reads_tokens_and_position_of_its_microbatch)
{
    struct random rng = random_new(told_seed(), 0);
    struct err err = { 0 };
    struct device_options options = {
        .arena_bytes = 1 << 20, .poisons = true, .delay_most_s = 100e-6, .delay_seed = 5
    };
    struct device *device = host->open(&options, &err);
    struct stream *compute = host->stream_new(device, "compute", &err);
    struct feed_setup setup = { &source,      host,      device,           compute,
                                MICROBATCHES, SEQUENCES, RANK * SEQUENCES, RANKS * SEQUENCES };
    struct feed feed;
    ck_assert_msg(feed_open(&feed, &setup, &err), "%s", err.msg);
    ck_assert(host->stream_sync(compute, &err));
    for (int i = 0, step = 1; i < 20; i++) {
        struct seen seen[MICROBATCHES];
        run_step(&feed, (uint32_t)step, seen);
        for (int j = 0; j < MICROBATCHES; j++)
            ck_assert_msg(is_as_expected(&seen[j], (uint32_t)step, j),
                          "step %d, microbatch %d: unexpected samples", step, j);
        step = random_below(&rng, 4) > 0 ? step + 1 : 1 + (int)random_below(&rng, 50);
    }
    feed_close(&feed);
    host->stream_free(compute);
    host->close(device);
}
END_TEST

/* The position, ids and targets of a microbatch each begin at a multiple of 64 bytes, and no
 * further memory is taken. The position in the data takes 16 bytes, the id of a token 8 bytes. */
static const struct {
    long seq, sequences;
    long tokens_bytes; /* bytes of the ids with padding */
} parts[] = { { 7, 1, 64 }, { 8, 1, 64 }, { 9, 1, 128 }, { 8, 3, 192 }, { 5, 5, 256 } };

START_TEST(the_parts_of_a_microbatch_are_aligned_without_a_gap)
{
    struct err err = { 0 };
    struct device *device = host->open(&(struct device_options){ .arena_bytes = 1 << 16 }, &err);
    struct stream *compute = host->stream_new(device, "compute", &err);
    struct token_source some = { .vocab = 1000, .seq = parts[_i].seq };
    struct feed_setup setup = { &some, host, device, compute, 2, parts[_i].sequences, 0, 1 };
    struct feed feed;
    ck_assert_msg(feed_open(&feed, &setup, &err), "%s", err.msg);
    const char *place = (const char *)feed.now.place;
    ck_assert_uint_eq((uintptr_t)place % 64, 0);
    ck_assert_int_eq((const char *)feed.now.ids - place, 64);
    ck_assert_int_eq((const char *)feed.now.targets - place, 64 + parts[_i].tokens_bytes);
    ck_assert_int_eq((long)feed.microbatch_bytes, 64 + 2 * parts[_i].tokens_bytes);
    feed_close(&feed);
    host->stream_free(compute);
    host->close(device);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("feed");
    tcase_add_test(tc, a_pass_reads_tokens_and_position_of_its_microbatch);
    tcase_add_loop_test(tc, the_parts_of_a_microbatch_are_aligned_without_a_gap, 0, LENGTH(parts));
    Suite *s = suite_create("exec/feed");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
