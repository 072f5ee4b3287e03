#include "sim/schedule/schedule.h"
#include "tests/testing.h"

#include <string.h>

static struct arena arena;
static struct text text;

static void release(void)
{
    arena_release(&arena);
    text_release(&text);
}

static struct lowering lowering_of(int bits)
{
    return (struct lowering){
        .recompute = bits & 1,
        .has_data_group = bits & 2,
        .gather_updated = bits & 4,
        .tied = bits & 8,
        .tied_back = bits % 5 == 4,
        .mix_beside = bits % 3 == 1,
        .mix_updated = bits % 3 == 2,
    };
}
enum { NUM_LOWERINGS = 16 };

/* Calls `law` for every generator and for every shape of the grid that it accepts. */
static void for_all_shapes(int most_microbatches, void (*law)(const struct generator *generator,
                                                              const struct schedule_shape *shape))
{
    int num_tried = 0;
    for (int i = 0; i < num_generators; i++)
        for (int stages = 1; stages <= 8; stages++)
            for (int chunks = 1; chunks <= 4; chunks++)
                for (int m = 1; m <= most_microbatches; m++) {
                    struct schedule_shape shape = { stages, chunks, m, 0 };
                    struct err err = { 0 };
                    if (!generators[i].accepts(&shape, &err))
                        continue;
                    law(&generators[i], &shape);
                    arena_release(&arena);
                    num_tried++;
                }
    ck_assert_int_ge(num_tried, 3 * 8 * most_microbatches);
}

static struct schedule *compute_order(const char *name, struct schedule_shape shape)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_compute_order(generator_find(name), &shape, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    return schedule;
}

static struct schedule *lowered(const char *name, struct schedule_shape shape,
                                struct lowering lowering)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_new(generator_find(name), &shape, &lowering, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    return schedule;
}

static const char *written(const struct schedule *schedule)
{
    text_release(&text);
    schedule_write(schedule, &text);
    return text_get(&text);
}

START_TEST(every_generator_is_found_by_its_name)
{
    for (int i = 0; i < num_generators; i++)
        ck_assert_ptr_eq(generator_find(generators[i].name), &generators[i]);
    ck_assert_ptr_null(generator_find("2f2b"));
}
END_TEST

START_TEST(naive_finishes_one_microbatch_before_the_next)
{
    struct schedule *schedule = compute_order("naive", (struct schedule_shape){ 2, 1, 3, 0 });
    ck_assert_str_eq(written(schedule), "0: F0.0 B0.0 F0.1 B0.1 F0.2 B0.2\n"
                                        "1: F1.0 B1.0 F1.1 B1.1 F1.2 B1.2\n");
}
END_TEST

START_TEST(gpipe_runs_all_forwards_then_all_backwards)
{
    struct schedule *schedule = compute_order("gpipe", (struct schedule_shape){ 2, 1, 3, 0 });
    ck_assert_str_eq(written(schedule), "0: F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n"
                                        "1: F1.0 F1.1 F1.2 B1.0 B1.1 B1.2\n");
}
END_TEST

START_TEST(one_f_one_b_alternates_after_a_warm_up)
{
    struct schedule *schedule = compute_order("1f1b", (struct schedule_shape){ 3, 1, 4, 0 });
    ck_assert_str_eq(written(schedule), "0: F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3\n"
                                        "1: F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3\n"
                                        "2: F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3\n");
}
END_TEST

/* The warm-ups have 2 x 1 + 2 = 4 and 2 forwards, as groups of two microbatches pass through both
 * chunks. */
START_TEST(interleaving_runs_groups_of_pp_microbatches_through_all_chunks)
{
    struct schedule *schedule = compute_order("interleaved", (struct schedule_shape){ 2, 2, 4, 0 });
    ck_assert_str_eq(written(schedule),
                     "0: F0.0 F0.1 F2.0 F2.1"
                     " F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1"
                     " B2.2 B2.3 B0.2 B0.3\n"
                     "1: F1.0 F1.1"
                     " F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3"
                     " B1.2 B1.3\n");
}
END_TEST

/* The stages have warm-ups of 2, 1 and 0 forwards, as in 1F1B; stage s has s weight gradients left
 * at the end. */
START_TEST(zb_h1_delays_weight_gradients_by_the_stage_number)
{
    struct schedule *schedule = compute_order("zb-h1", (struct schedule_shape){ 3, 1, 4, 0 });
    ck_assert_str_eq(written(schedule),
                     "0: F0.0 F0.1 F0.2 BI0.0 BW0.0 F0.3 BI0.1 BW0.1 BI0.2 BW0.2 BI0.3 BW0.3\n"
                     "1: F1.0 F1.1 BI1.0 F1.2 BI1.1 BW1.0 F1.3 BI1.2 BW1.1 BI1.3 BW1.2 BW1.3\n"
                     "2: F2.0 BI2.0 F2.1 BI2.1 F2.2 BI2.2 BW2.0 F2.3 BI2.3 BW2.1 BW2.2 BW2.3\n");
}
END_TEST

/* Warm-ups and delays are twice those of ZB-H1: warm-ups of 2 and 0 forwards, weight gradients
 * delayed by 0 and 2 passes. */
START_TEST(zb_h2_doubles_warm_up_and_delay_of_zb_h1)
{
    struct schedule *schedule = compute_order("zb-h2", (struct schedule_shape){ 2, 1, 4, 0 });
    ck_assert_str_eq(written(schedule),
                     "0: F0.0 F0.1 F0.2 BI0.0 BW0.0 F0.3 BI0.1 BW0.1 BI0.2 BW0.2 BI0.3 BW0.3\n"
                     "1: F1.0 BI1.0 F1.1 BI1.1 F1.2 BI1.2 BW1.0 F1.3 BI1.3 BW1.1 BW1.2 BW1.3\n");
}
END_TEST

/* By Megatron-LM's get_schedule_table, groups of microbatches follow each other; within a group,
 * all microbatches pass one chunk before the next chunk. */
static void check_table(int stages, int chunks, int microbatches, int group)
{
    struct schedule_shape shape = { stages, chunks, microbatches, 0 };
    struct schedule *schedule = compute_order("interleaved", shape);
    for (int stage = 0; stage < stages; stage++) {
        const struct instrs *list = &schedule->ranks[stage];
        int at = 0, warmup = 0;
        for (int first = 0; first < microbatches; first += group)
            for (int chunk = 0; chunk < chunks; chunk++)
                for (int i = first; i < first + group && i < microbatches; i++) {
                    while (list->at[at].op != INSTR_FORWARD)
                        at++;
                    ck_assert_int_eq(list->at[at].chunk, chunk * stages + stage);
                    ck_assert_int_eq(list->at[at++].microbatch, i);
                }
        while (list->at[warmup].op == INSTR_FORWARD)
            warmup++;
        int expected = 2 * (stages - stage - 1) + (chunks - 1) * group + 1;
        int total = microbatches * chunks;
        ck_assert_int_eq(warmup, expected < total ? expected : total);
    }
}

START_TEST(interleaved_groups_equal_megatrons)
{
    static const int cases[][4] = { /* stages, chunks, microbatches, group */
                                    { 2, 2, 4, 2 },   { 2, 2, 3, 3 },   { 2, 3, 5, 3 },
                                    { 3, 2, 8, 4 },   { 4, 2, 11, 6 },  { 4, 3, 7, 7 },
                                    { 4, 2, 10, 5 },  { 8, 2, 12, 12 }, { 8, 3, 17, 9 },
                                    { 8, 2, 21, 11 }, { 6, 2, 8, 8 },   { 16, 2, 40, 20 }
    };
    for (int i = 0; i < LENGTH(cases); i++)
        check_table(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
}
END_TEST

static const struct refusal {
    const char *generator;
    struct schedule_shape shape;
    const char *msg;
} refusals[] = {
    { "interleaved", { 8, 2, 7, 0 }, "7 microbatches are fewer than 8 pipeline stages" },
    { "interleaved", { 1, 2, 12, 0 }, "interleaving needs 2 or more pipeline stages, not 1" },
    { "interleaved", { 8, 1, 16, 0 }, "interleaving needs 2 or more chunks on each stage, not 1" },
    { "1f1b", { 8, 2, 16, 0 }, "this schedule has 1 chunk on each stage, not 2" },
    { "gpipe", { 8, 3, 16, 0 }, "this schedule has 1 chunk on each stage, not 3" },
    { "naive", { 8, 4, 16, 0 }, "this schedule has 1 chunk on each stage, not 4" },
    { "zb-h1", { 8, 2, 16, 0 }, "this schedule has 1 chunk on each stage, not 2" },
    { "zb-h1", { 1, 1, 16, 0 }, "zero-bubble schedules need 2 or more pipeline stages, not 1" },
    { "zb-h2", { 1, 2, 16, 0 }, "zero-bubble schedules need 2 or more pipeline stages, not 1" },
};

START_TEST(a_shape_without_a_schedule_is_infeasible_with_a_reason)
{
    const struct refusal *refusal = &refusals[_i];
    const struct generator *generator = generator_find(refusal->generator);
    struct lowering lowering = { 0 };
    struct err err = { 0 };
    struct err again = { 0 };
    ck_assert_ptr_null(schedule_compute_order(generator, &refusal->shape, &arena, &err));
    ck_assert_ptr_null(schedule_new(generator, &refusal->shape, &lowering, &arena, &again));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "schedule");
    ck_assert_str_eq(err.msg, refusal->msg);
    ck_assert_str_eq(again.msg, refusal->msg);
}
END_TEST

static void holds_what_the_closed_form_says(const struct generator *generator,
                                            const struct schedule_shape *shape)
{
    struct schedule *schedule = compute_order(generator->name, *shape);
    for (int stage = 0; stage < shape->num_stages; stage++)
        ck_assert_int_eq(schedule_in_flight(schedule, stage), generator->in_flight(shape, stage));
}

START_TEST(activations_counted_from_the_schedule_equal_the_closed_form)
{
    for_all_shapes(24, holds_what_the_closed_form_says);
}
END_TEST

/* Stage s of p = 8 with v = 2 chunks and m = 16 microbatches holds min(2 (8 - s - 1) + 1 x 8, 32) +
 * 1 chunks: stage 0 holds 23 chunks, with as many activations as 11.5 stages. */
START_TEST(interleaving_holds_more_than_one_f_one_b)
{
    struct schedule_shape interleaved = { 8, 2, 16, 0 };
    struct schedule_shape plain = { 8, 1, 16, 0 };
    ck_assert_int_eq(generator_find("interleaved")->in_flight(&interleaved, 0), 23);
    ck_assert_int_eq(generator_find("interleaved")->in_flight(&interleaved, 7), 9);
    ck_assert_int_eq(generator_find("1f1b")->in_flight(&plain, 0), 8);
    ck_assert_int_eq(generator_find("1f1b")->in_flight(&plain, 7), 1);
}
END_TEST

/* A microbatch that waits only for its weight gradients must keep at most as much as one that waits
 * for input and weight gradients. */
static void holds_the_bytes_of_the_closed_form(const struct generator *generator,
                                               const struct schedule_shape *shape)
{
    struct schedule *schedule = compute_order(generator->name, *shape);
    for (int stage = 0; stage < shape->num_stages; stage++)
        for (double waiting_bytes = 0; waiting_bytes <= 8; waiting_bytes += 2) {
            int held = generator->in_flight(shape, stage);
            int waiting = generator->waiting ? generator->waiting(shape, stage) : 0;
            double expected_bytes = 8 * (held - waiting) + waiting_bytes * waiting;
            double got_bytes = schedule_held_bytes(schedule, stage, 8, waiting_bytes);
            ck_assert_double_eq(got_bytes, expected_bytes);
        }
}

START_TEST(bytes_counted_from_the_list_equal_the_closed_form)
{
    for_all_shapes(40, holds_the_bytes_of_the_closed_form);
}
END_TEST

/* ZB-H1 holds p and ZB-H2 2p - 1 microbatches on every stage; on stage s, ZB-H1 has s and ZB-H2 2s
 * microbatches that wait for weight gradients. */
START_TEST(zb_h1_holds_as_many_microbatches_as_1f1b_and_zb_h2_nearly_twice_as_many)
{
    struct schedule_shape shape = { 8, 1, 64, 0 };
    for (int stage = 0; stage < 8; stage++) {
        ck_assert_int_eq(generator_find("zb-h1")->in_flight(&shape, stage), 8);
        ck_assert_int_eq(generator_find("zb-h1")->waiting(&shape, stage), stage);
        ck_assert_int_eq(generator_find("zb-h2")->in_flight(&shape, stage), 15);
        ck_assert_int_eq(generator_find("zb-h2")->waiting(&shape, stage), 2 * stage);
    }
}
END_TEST

START_TEST(only_zero_bubble_schedules_and_those_with_pairs_split_the_backward)
{
    for (int i = 0; i < num_generators; i++)
        ck_assert_int_eq(generator_splits(&generators[i]),
                         strncmp(generators[i].name, "zb-", 3) == 0 || generators[i].pairs);
}
END_TEST

/* A receive is posted before the pass that precedes the message's reader, so that the message
 * overlaps that pass. RG1.0, which B0.0 needs, is posted after F0.0 and overlaps F0.1. */
START_TEST(a_lowered_1f1b_has_the_expected_text)
{
    struct lowering lowering = { .has_data_group = true };
    struct schedule *schedule = lowered("1f1b", (struct schedule_shape){ 2, 1, 2, 0 }, lowering);
    ck_assert_str_eq(written(schedule), "0: F0.0 SA0.0>1@0 RG1.0<1@0 F0.1 SA0.1>1@3 RG1.1<1@3"
                                        " B0.0@2 B0.1@5 DG0@7 DN@7 OPT@9\n"
                                        "1: RA0.0<0 F1.0@0 RA0.1<0@1 B1.0 SG1.0>0@3 F1.1@2"
                                        " B1.1 SG1.1>0@6 DG1@6 DN@6 OPT@9\n");
}
END_TEST

/* The gradient is sent after BI, and the reduction follows the last BW. A weight gradient needs no
 * message, so the receive for BI0.1 is posted while BW0.0 runs. */
START_TEST(a_lowered_zb_h1_sends_after_bi_and_reduces_after_bw)
{
    struct lowering lowering = { .has_data_group = true, .recompute = true };
    struct schedule *schedule = lowered("zb-h1", (struct schedule_shape){ 2, 1, 2, 0 }, lowering);
    ck_assert_str_eq(written(schedule),
                     "0: F0.0 SA0.0>1@0 RG1.0<1@0 F0.1 SA0.1>1@3 R0.0@2 BI0.0 RG1.1<1@6"
                     " BW0.0 R0.1@7 BI0.1 BW0.1 DG0@11 DN@11 OPT@13\n"
                     "1: RA0.0<0 F1.0@0 RA0.1<0@1 R1.0 BI1.0 SG1.0>0@4 F1.1@2"
                     " R1.1 BI1.1 SG1.1>0@8 BW1.0 BW1.1 DG1@11 DN@11 OPT@13\n");
}
END_TEST

/* The message of receive RG1.0 depends on F0.0, and that of RA0.1 on B1.0, so neither receive is
 * posted before its message can be sent. */
START_TEST(with_one_microbatch_at_a_time_nothing_is_received_ahead)
{
    struct schedule_shape shape = { 2, 1, 2, 0 };
    ck_assert_str_eq(written(lowered("naive", shape, (struct lowering){ 0 })),
                     "0: F0.0 SA0.0>1@0 RG1.0<1 B0.0@2 F0.1 SA0.1>1@4 RG1.1<1@3 B0.1@6 DN@7"
                     " OPT@8\n"
                     "1: RA0.0<0 F1.0@0 B1.0 SG1.0>0@2 RA0.1<0@1 F1.1@4 B1.1 SG1.1>0@6 DN@6"
                     " OPT@8\n");
}
END_TEST

START_TEST(recompute_starts_when_the_gradient_has_arrived)
{
    struct lowering lowering = { .recompute = true, .tied = true, .gather_updated = true };
    struct schedule *schedule = lowered("1f1b", (struct schedule_shape){ 2, 1, 1, 0 }, lowering);
    ck_assert_str_eq(written(schedule),
                     "0: F0.0 SA0.0>1@0 RG1.0<1 R0.0@2 B0.0 DT>1@4 DN@4 OPT@6 GP0@7\n"
                     "1: RA0.0<0 F1.0@0 R1.0 B1.0 SG1.0>0@3 DT>0@3 DN@3 OPT@6 GP1@7\n");
}
END_TEST

/* Weights are averaged either after their update, or from the step's start on, while passes run. */
START_TEST(the_lowered_lists_of_gossip_on_two_stages_are_as_expected)
{
    struct lowering updated = { .mix_updated = true }, beside = { .mix_beside = true };
    struct schedule_shape shape = { 2, 1, 1, 0 };
    ck_assert_str_eq(written(lowered("1f1b", shape, updated)),
                     "0: F0.0 SA0.0>1@0 RG1.0<1 B0.0@2 DN@3 OPT@4 MP0@5\n"
                     "1: RA0.0<0 F1.0@0 B1.0 SG1.0>0@2 DN@2 OPT@4 MP1@5\n");
    ck_assert_str_eq(written(lowered("1f1b", shape, beside)),
                     "0: MP0 F0.0 SA0.0>1@1 RG1.0<1 B0.0@3 DN@4 OPT@5\n"
                     "1: MP1 RA0.0<0 F1.0@1 B1.0 SG1.0>0@3 DN@3 OPT@5\n");
}
END_TEST

static int num_weight_passes(const struct generator *generator, const struct schedule_shape *shape)
{
    struct arena orders = { 0 };
    struct err err = { 0 };
    const struct schedule *order = schedule_compute_order(generator, shape, &orders, &err);
    int count = 0;
    for (int stage = 0; stage < shape->num_stages; stage++)
        for (int i = 0; i < order->ranks[stage].count; i++)
            count += order->ranks[stage].at[i].op == INSTR_BACKWARD_WEIGHT;
    arena_release(&orders);
    return count;
}

static int expected_count(const struct generator *generator, const struct schedule_shape *shape,
                          const struct lowering *lowering)
{
    int chunks = shape->num_stages * shape->chunks_per_stage;
    int m = shape->num_microbatches;
    /* in a V the microbatch turns on the last stage, without a message */
    int ways = generator->rule ? chunks - shape->chunks_per_stage : chunks - 1;
    int count = 2 * chunks * m + num_weight_passes(generator, shape) + 4 * ways * m;
    count += lowering->recompute ? chunks * m : 0;
    count += lowering->has_data_group ? chunks : 0;
    struct placement placement = { shape->num_stages, shape->chunks_per_stage, generator->rule };
    int tied = chunks - 1 - lowering->tied_back; /* the chunk with the other copy of the table */
    bool is_apart = tied > 0 && placement_stage(placement, tied) != 0;
    bool is_mirrored = placement_is_mirrored(placement); /* this stage has two such pairs */
    count += lowering->tied && is_apart ? (is_mirrored ? 4 : 2) : 0;
    count += 2 * shape->num_stages;
    count += lowering->mix_beside || lowering->mix_updated ? chunks : 0;
    return count + (lowering->gather_updated ? chunks : 0);
}

static void has_the_expected_count(const struct generator *generator,
                                   const struct schedule_shape *shape)
{
    for (int bits = 0; bits < NUM_LOWERINGS; bits++) {
        struct lowering lowering = lowering_of(bits);
        struct schedule *schedule = lowered(generator->name, *shape, lowering);
        int count = 0;
        for (int stage = 0; stage < shape->num_stages; stage++)
            count += schedule->ranks[stage].count;
        ck_assert_int_eq(count, expected_count(generator, shape, &lowering));
        arena_release(&arena);
    }
}

START_TEST(each_lowering_adds_a_known_number_of_instructions)
{
    for_all_shapes(8, has_the_expected_count);
}
END_TEST

static bool same_schedule(const struct schedule *one, const struct schedule *other)
{
    if (memcmp(&one->shape, &other->shape, sizeof one->shape) != 0)
        return false;
    for (int stage = 0; stage < one->shape.num_stages; stage++) {
        const struct instrs *a = &one->ranks[stage];
        const struct instrs *b = &other->ranks[stage];
        if (a->count != b->count || memcmp(a->at, b->at, sizeof *a->at * (size_t)a->count) != 0)
            return false;
    }
    return true;
}

static void survives_the_text_form(const struct generator *generator,
                                   const struct schedule_shape *shape)
{
    for (int bits = 0; bits < NUM_LOWERINGS; bits += 5) {
        struct err err = { 0 };
        struct schedule *schedule = lowered(generator->name, *shape, lowering_of(bits));
        struct schedule *read = schedule_parse(written(schedule), &arena, &err);
        ck_assert_msg(read && same_schedule(schedule, read), "%s: %s", err.where, err.msg);
        ck_assert_int_eq(read->shape.num_stages, shape->num_stages);
        ck_assert_int_eq(read->shape.chunks_per_stage, shape->chunks_per_stage);
        ck_assert_int_eq(read->shape.num_microbatches, shape->num_microbatches);
    }
    struct err err = { 0 };
    struct schedule *order = compute_order(generator->name, *shape);
    ck_assert(same_schedule(order, schedule_parse(written(order), &arena, &err)));
}

START_TEST(text_is_read_back_as_the_same_schedule)
{
    for_all_shapes(SAMPLED(12, 8), survives_the_text_form);
}
END_TEST

START_TEST(blank_lines_and_more_blanks_change_nothing)
{
    struct err err = { 0 };
    struct schedule *schedule =
        schedule_parse("\n 0:  F0.0\tB0.0@0 \r\n\n1: F1.0 B1.0", &arena, &err);
    ck_assert_ptr_nonnull(schedule);
    ck_assert_str_eq(written(schedule), "0: F0.0 B0.0@0\n1: F1.0 B1.0\n");
}
END_TEST

static const struct slip {
    const char *text;
    const char *where;
    const char *msg;
} slips[] = {
    { "", "line 1", "expected \"0:\", found the end of the text" },
    { "\n\n", "line 1", "expected \"0:\", found the end of the text" },
    { "1: F0.0", "line 1", "expected \"0:\", found \"1:\"" },
    { "0: F0.0\n\n2: F1.0", "line 3", "expected \"1:\", found \"2:\"" },
    { "0 F0.0", "line 1", "expected \"0:\", found \"0\"" },
    { "0: Q0.0", "line 1", "expected an opcode, found \"Q0.0\"" },
    { "0: f0.0", "line 1", "expected an opcode, found \"f0.0\"" },
    { "0: F0.0\n1: F1", "line 2", "expected Fc.m, optionally followed by @after, found \"F1\"" },
    { "0: F0.00", "line 1", "expected Fc.m, optionally followed by @after, found \"F0.00\"" },
    { "0: F-1.0", "line 1", "expected Fc.m, optionally followed by @after, found \"F-1.0\"" },
    { "0: F9999999.0", "line 1",
      "expected Fc.m, optionally followed by @after, found \"F9999999.0\"" },
    { "0: SA0.0<1", "line 1",
      "expected SAc.m>p, optionally followed by @after, found \"SA0.0<1\"" },
    { "0: RA0.0>1", "line 1",
      "expected RAc.m<p, optionally followed by @after, found \"RA0.0>1\"" },
    { "0: OPT3", "line 1", "expected OPT, optionally followed by @after, found \"OPT3\"" },
    { "0: DT>", "line 1", "expected DT>p, optionally followed by @after, found \"DT>\"" },
    { "0: GP0@", "line 1", "expected GPc, optionally followed by @after, found \"GP0@\"" },
    { "0: GP0@x", "line 1", "expected GPc, optionally followed by @after, found \"GP0@x\"" },
};

START_TEST(an_error_in_a_schedule_text_names_its_line)
{
    struct err err = { 0 };
    ck_assert_ptr_null(schedule_parse(slips[_i].text, &arena, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, slips[_i].where);
    ck_assert_str_eq(err.msg, slips[_i].msg);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("schedule");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, every_generator_is_found_by_its_name);
    tcase_add_test(tc, naive_finishes_one_microbatch_before_the_next);
    tcase_add_test(tc, gpipe_runs_all_forwards_then_all_backwards);
    tcase_add_test(tc, one_f_one_b_alternates_after_a_warm_up);
    tcase_add_test(tc, interleaving_runs_groups_of_pp_microbatches_through_all_chunks);
    tcase_add_test(tc, zb_h1_delays_weight_gradients_by_the_stage_number);
    tcase_add_test(tc, zb_h2_doubles_warm_up_and_delay_of_zb_h1);
    tcase_add_test(tc, interleaved_groups_equal_megatrons);
    tcase_add_loop_test(tc, a_shape_without_a_schedule_is_infeasible_with_a_reason, 0,
                        LENGTH(refusals));
    tcase_add_test(tc, activations_counted_from_the_schedule_equal_the_closed_form);
    tcase_add_test(tc, interleaving_holds_more_than_one_f_one_b);
    tcase_add_test(tc, bytes_counted_from_the_list_equal_the_closed_form);
    tcase_add_test(tc, zb_h1_holds_as_many_microbatches_as_1f1b_and_zb_h2_nearly_twice_as_many);
    tcase_add_test(tc, only_zero_bubble_schedules_and_those_with_pairs_split_the_backward);
    tcase_add_test(tc, a_lowered_1f1b_has_the_expected_text);
    tcase_add_test(tc, a_lowered_zb_h1_sends_after_bi_and_reduces_after_bw);
    tcase_add_test(tc, with_one_microbatch_at_a_time_nothing_is_received_ahead);
    tcase_add_test(tc, recompute_starts_when_the_gradient_has_arrived);
    tcase_add_test(tc, the_lowered_lists_of_gossip_on_two_stages_are_as_expected);
    tcase_add_test(tc, each_lowering_adds_a_known_number_of_instructions);
    tcase_add_test(tc, text_is_read_back_as_the_same_schedule);
    tcase_add_test(tc, blank_lines_and_more_blanks_change_nothing);
    tcase_add_loop_test(tc, an_error_in_a_schedule_text_names_its_line, 0, LENGTH(slips));
    Suite *s = suite_create("sim/schedule");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
