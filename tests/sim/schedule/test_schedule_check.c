#include "sim/schedule/schedule.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <string.h>

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
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

static struct schedule *lowered(const char *name, struct schedule_shape shape,
                                struct lowering lowering)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_new(generator_find(name), &shape, &lowering, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    return schedule;
}

static bool passes(const struct schedule *schedule)
{
    struct err err = { 0 };
    return schedule_check(schedule, &err);
}

static void assert_passes(const struct generator *generator, struct schedule_shape shape, int bits)
{
    struct lowering lowering = lowering_of(bits);
    struct err err = { 0 };
    struct schedule *schedule = schedule_new(generator, &shape, &lowering, &arena, &err);
    if (!schedule)
        return;
    ck_assert_msg(schedule_check(schedule, &err), "%s p%d v%d m%d lowering %d: %s: %s",
                  generator->name, shape.num_stages, shape.chunks_per_stage, shape.num_microbatches,
                  bits, err.where, err.msg);
    arena_release(&arena);
}

/* Tests every lowering with every p and v (stages and chunks per stage) and up to 8 microbatches,
 * and one eighth of the cases with up to 24. */
START_TEST(every_generators_schedule_passes_the_check_under_any_lowering)
{
    for (int i = 0; i < num_generators; i++)
        for (int stages = 1; stages <= 8; stages++)
            for (int chunks = 1; chunks <= 4; chunks++)
                for (int m = 1; m <= 24; m++)
                    if (m <= 8 || (m + _i) % 8 == 0)
                        assert_passes(&generators[i],
                                      (struct schedule_shape){ stages, chunks, m, 0 }, _i);
}
END_TEST

/* Random orders of two chunks per stage. Half of them have at most twice as many microbatches as
 * stages. */
START_TEST(a_random_shape_of_two_directions_is_free_of_deadlock)
{
    static const char *const names[] = { "zb-v", "dualpipev", "dualpipe" };
    struct random rng = random_new(told_seed(), 0);
    for (int i = 0; i < SAMPLED(10000, 60); i++) {
        const struct generator *generator = generator_find(names[i % LENGTH(names)]);
        struct err ignored = { 0 };
        struct schedule_shape shape = { .chunks_per_stage = 2 };
        do {
            shape.num_stages = within(&rng, 2, 16);
            shape.num_microbatches = within(&rng, 1, shape.num_stages * within(&rng, 2, 4));
        } while (!generator->accepts(&shape, &ignored));
        assert_passes(generator, shape, within(&rng, 0, NUM_LOWERINGS - 1));
    }
}
END_TEST

/* The next instruction from *at on that computes one of the first microbatches. */
static const struct instr *next_pass(const struct instrs *list, int *at, int num_microbatches)
{
    for (; *at < list->count; ++*at) {
        const struct instr *instr = &list->at[*at];
        bool computes = instr->op == INSTR_FORWARD || instr->op == INSTR_BACKWARD_INPUT ||
                        instr->op == INSTR_BACKWARD_WEIGHT;
        if (computes && instr->microbatch < num_microbatches)
            return &list->at[(*at)++];
    }
    return NULL;
}

/* With fewer than 2 pp - 1 microbatches, the order of zb-v is the order for 2 pp - 1 without the
 * missing microbatches. */
START_TEST(a_v_of_few_microbatches_leaves_out_the_missing_ones)
{
    for (int p = 2; p <= 6; p++)
        for (int m = 1; m < 2 * p; m++) {
            struct lowering none = { 0 };
            struct schedule *few = lowered("zb-v", (struct schedule_shape){ p, 2, m, 0 }, none);
            struct schedule *all =
                lowered("zb-v", (struct schedule_shape){ p, 2, 2 * p - 1, 0 }, none);
            for (int stage = 0; stage < p; stage++) {
                int at = 0, at_all = 0;
                const struct instr *pass, *expected;
                do {
                    pass = next_pass(&few->ranks[stage], &at, m);
                    expected = next_pass(&all->ranks[stage], &at_all, m);
                    ck_assert(!pass == !expected);
                    ck_assert(!pass ||
                              (pass->op == expected->op && pass->chunk == expected->chunk &&
                               pass->microbatch == expected->microbatch));
                } while (pass);
                ck_assert_int_ge(at, 6 * m);
            }
            arena_release(&arena);
        }
}
END_TEST

START_TEST(a_schedule_of_a_million_instructions_is_checked)
{
    assert_passes(generator_find("interleaved"), (struct schedule_shape){ 64, 2, 512, 0 },
                  NUM_LOWERINGS - 1);
}
END_TEST

/* Small schedules, which together contain every opcode. */
static const struct specimen {
    const char *generator;
    struct schedule_shape shape;
    int lowering;
} specimens[] = {
    { "1f1b", { 2, 1, 2, 0 }, 0 },        { "1f1b", { 3, 1, 4, 0 }, 2 },
    { "1f1b", { 3, 1, 3, 0 }, 15 },       { "interleaved", { 2, 2, 4, 0 }, 15 },
    { "interleaved", { 3, 2, 3, 0 }, 3 }, { "gpipe", { 2, 1, 3, 0 }, 14 },
    { "naive", { 2, 1, 2, 0 }, 11 },      { "zb-h1", { 3, 1, 4, 0 }, 2 },
    { "zb-h2", { 2, 1, 4, 0 }, 15 },      { "zb-h1", { 2, 1, 3, 0 }, 14 },
    { "dualpipev", { 2, 2, 4, 0 }, 3 },   { "dualpipe", { 4, 2, 4, 0 }, 2 },
    { "interleaved", { 2, 2, 6, 4 }, 2 }, { "zb-v", { 2, 2, 4, 0 }, 2 },
};

static struct schedule *specimen(int i)
{
    return lowered(specimens[i].generator, specimens[i].shape, lowering_of(specimens[i].lowering));
}

static struct schedule *copy_of(const struct schedule *schedule)
{
    struct schedule *copy = ARENA_NEW(&arena, struct schedule);
    size_t stages = (size_t)schedule->shape.num_stages;
    *copy = *schedule;
    copy->ranks = ARENA_ARRAY(&arena, struct instrs, stages);
    for (size_t stage = 0; stage < stages; stage++) {
        const struct instrs *from = &schedule->ranks[stage];
        copy->ranks[stage].count = from->count;
        copy->ranks[stage].at = ARENA_ARRAY(&arena, struct instr, (size_t)from->count);
        memcpy(copy->ranks[stage].at, from->at, sizeof *from->at * (size_t)from->count);
    }
    return copy;
}

/* Removes an instruction from a list. Edges (dependencies) on later instructions are renumbered;
 * edges on the removed one are removed. */
static void drop(struct instrs *list, int dropped)
{
    list->count--;
    for (int i = dropped; i < list->count; i++) {
        list->at[i] = list->at[i + 1];
        if (list->at[i].after == dropped)
            list->at[i].after = NO_INSTR;
        else if (list->at[i].after > dropped)
            list->at[i].after--;
    }
}

static const char *text_of(const struct instr *instr)
{
    return opcode_infos[instr->op].text;
}

START_TEST(a_schedule_without_any_one_of_its_instructions_fails)
{
    struct schedule *sound = specimen(_i);
    for (int stage = 0; stage < sound->shape.num_stages; stage++)
        for (int i = 0; i < sound->ranks[stage].count; i++) {
            struct schedule *broken = copy_of(sound);
            drop(&broken->ranks[stage], i);
            ck_assert_msg(!passes(broken), "accepted: stage %d without instruction %d, %s", stage,
                          i, text_of(&sound->ranks[stage].at[i]));
        }
}
END_TEST

START_TEST(a_schedule_that_repeats_any_of_its_instructions_fails)
{
    struct schedule *sound = specimen(_i);
    for (int stage = 0; stage < sound->shape.num_stages; stage++)
        for (int i = 0; i < sound->ranks[stage].count; i++) {
            struct schedule *broken = copy_of(sound);
            struct instrs *list = &broken->ranks[stage];
            struct instr *longer = ARENA_ARRAY(&arena, struct instr, (size_t)list->count + 1);
            memcpy(longer, list->at, sizeof *longer * (size_t)list->count);
            longer[list->count++] = list->at[i];
            list->at = longer;
            ck_assert_msg(!passes(broken), "accepted: stage %d with instruction %d, %s, twice",
                          stage, i, text_of(&longer[i]));
        }
}
END_TEST

static int next_on_lane(const struct instrs *list, int i)
{
    enum lane lane = opcode_infos[list->at[i].op].lane;
    for (int next = i + 1; next < list->count; next++)
        if (opcode_infos[list->at[next].op].lane == lane)
            return next;
    return NO_INSTR;
}

/* In 1F1B every order on a lane (a stage's stream) is necessary. In other schedules some orders are
 * not: the last stage of GPipe could run its backwards in any order in which its messages are sent.
 */
START_TEST(swapping_any_neighbours_on_a_lane_of_1f1b_fails)
{
    struct schedule *sound = specimen(_i);
    for (int stage = 0; stage < sound->shape.num_stages; stage++)
        for (int i = 0; i < sound->ranks[stage].count; i++) {
            struct schedule *broken = copy_of(sound);
            struct instr *list = broken->ranks[stage].at;
            int next = next_on_lane(&broken->ranks[stage], i);
            if (next == NO_INSTR || memcmp(&list[i], &list[next], sizeof list[i]) == 0)
                continue;
            struct instr swapped = list[i];
            list[i] = list[next];
            list[next] = swapped;
            ck_assert_msg(!passes(broken), "accepted: stage %d with %s (%d) and %s (%d) swapped",
                          stage, text_of(&list[next]), i, text_of(&list[i]), next);
        }
}
END_TEST

START_TEST(changing_any_chunk_microbatch_or_peer_fails)
{
    struct schedule *sound = specimen(_i);
    for (int stage = 0; stage < sound->shape.num_stages; stage++)
        for (int i = 0; i < sound->ranks[stage].count; i++)
            for (int change = 0; change < 6; change++) {
                struct schedule *broken = copy_of(sound);
                struct instr *instr = &broken->ranks[stage].at[i];
                int *fields[] = { &instr->chunk, &instr->microbatch, &instr->peer };
                *fields[change / 2] += change % 2 ? 1 : -1;
                ck_assert_msg(!passes(broken),
                              "accepted: stage %d, instruction %d, %s, after change %d", stage, i,
                              text_of(instr), change);
            }
}
END_TEST

START_TEST(a_microbatch_out_of_range_is_named)
{
    struct schedule *sound = specimen(_i);
    int last = sound->shape.num_microbatches;
    for (int i = 0; i < sound->ranks[0].count; i++)
        for (int microbatch = -1; microbatch <= last; microbatch += last + 1) {
            struct schedule *broken = copy_of(sound);
            struct err err = { 0 };
            if (!strchr(opcode_infos[broken->ranks[0].at[i].op].form, 'm'))
                continue;
            broken->ranks[0].at[i].microbatch = microbatch;
            ck_assert(!schedule_check(broken, &err));
            ck_assert_msg(strstr(err.msg, "is beyond the"), "%d: %s", microbatch, err.msg);
        }
}
END_TEST

/* Without gradient reductions no edge is implied by another. With a reduction, the edge to the norm
 * would be implied, because the norm follows the reduction on the lane. */
START_TEST(removing_any_edge_fails)
{
    struct schedule *sound =
        lowered("interleaved", (struct schedule_shape){ 2, 2, 4, 0 }, lowering_of(_i));
    for (int stage = 0; stage < sound->shape.num_stages; stage++)
        for (int i = 0; i < sound->ranks[stage].count; i++) {
            struct schedule *broken = copy_of(sound);
            struct instr *instr = &broken->ranks[stage].at[i];
            if (instr->after == NO_INSTR)
                continue;
            instr->after = NO_INSTR;
            ck_assert_msg(!passes(broken),
                          "accepted: stage %d, instruction %d, %s, with a changed dependency",
                          stage, i, text_of(instr));
        }
}
END_TEST

START_TEST(an_order_implied_by_other_edges_passes)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_parse("0: RG1.0<1 F0.0 SA0.0>1@1 B0.0@0 DG0@3 DN OPT@5\n"
                                               "1: RA0.0<0 F1.0@0 B1.0 DG1@2 SG1.0>0@3 DN OPT@5\n",
                                               &arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    ck_assert_msg(schedule_check(schedule, &err), "%s: %s", err.where, err.msg);
}
END_TEST

#define FIRST_OF_TWO "0: RG1.0<1 F0.0 SA0.0>1@1 B0.0@0 DN@3 OPT@4\n"
#define LAST_OF_TWO  "1: RA0.0<0 F1.0@0 B1.0 SG1.0>0@2 DN@2 OPT@4\n"

static const struct fault {
    const char *text;
    const char *where;
    const char *msg;
} faults[] = {
    { "0: F0.0 B0.0 DN@1 OPT@3\n", "stage 0, instruction 3",
      "OPT@3 waits for an instruction that is not earlier" },
    { FIRST_OF_TWO "1: DN OPT@0\n", "stage 1", "expected 1 forwards, found 0" },
    { "0: F0.0 F1.0 B0.0 DN@2 OPT@3\n1: OPT\n", "stage 0, instruction 1",
      "F1.0 belongs to stage 1" },
    { "0: F0.0 SA0.0>0@0 B0.0 DN@2 OPT@3\n", "stage 0, instruction 1",
      "SA0.0>0@0 reaches beyond the 1 chunks" },
    { "0: F0.0 SA0.0>0@0\n1: F1.0\n", "stage 0, instruction 1",
      "SA0.0>0@0 should name stage 1, its chunk's neighbour" },
    { "0: F0.0 B0.0 F0.1 B0.0 DN@3 OPT@4\n", "stage 0, instruction 3",
      "B0.0 repeats instruction 1" },
    { "0: F0.0 DN OPT@1\n", "stage 0", "expected B for chunk 0, microbatch 0; found none" },
    { "0: B0.0 F0.0 DN@1 OPT@2\n", "stage 0, instruction 0",
      "B0.0 may start before F0.0 (instruction 1) has finished" },
    { "0: RG1.0<1 F0.0 SA0.0>1 B0.0@0 DN@3 OPT@4\n" LAST_OF_TWO, "stage 0, instruction 2",
      "SA0.0>1 may start before F0.0 (instruction 1) has finished" },
    { FIRST_OF_TWO "1: RA0.0<0 F1.0 B1.0 SG1.0>0@2 DN@2 OPT@4\n", "stage 1, instruction 1",
      "F1.0 may start before RA0.0<0 (instruction 0) has finished" },
    { FIRST_OF_TWO "1: F1.0 B1.0 SG1.0>0@1 DN@1 OPT@3\n", "stage 1",
      "expected RA for chunk 1, microbatch 0; found none" },
    { "0: F0.0 R0.0 F0.1 B0.0 R0.1 B0.1 DN@5 OPT@6\n", "stage 0, instruction 1",
      "R0.0 is not just before B0.0 (instruction 3)" },
    { "0: F0.0 B0.0 DN@1 OPT@2 GP0@1\n", "stage 0, instruction 4",
      "GP0@1 may start before OPT@2 (instruction 3) has finished" },
    { "0: F0.0 B0.0 DN@1 OPT@2 MP0@1\n", "stage 0, instruction 4",
      "MP0@1 may start before OPT@2 (instruction 3) has finished" },
    { "0: F0.0 B0.0 DN@1 OPT@2 MP0@3 MP0@3\n", "stage 0", "expected 1 MP, found 2" },
    { "0: F0.0 B0.0 DN@1 OPT@2 GP0@3 GP0@3\n", "stage 0",
      "expected 1 gathers after the update, found 2" },
    { "0: F0.0 DG0@0 B0.0 DN@2 OPT@3\n", "stage 0, instruction 1",
      "DG0@0 may start before B0.0 (instruction 2) has finished" },
    { "0: F0.0 B0.0 DG0@1 DG0@1 DN@1 OPT@4\n", "stage 0, instruction 3",
      "DG0@1 is one more than the 1 expected" },
    { "0: F0.0 SA0.0>1@0 RA1.0<1@0 F0.1 SA0.1>1@3 RA1.1<1@3 F2.0@2 SA2.0>1@6 RG3.0<1@6 F2.1@5 "
      "SA2.1>1@9 RG3.1<1@9 B2.0@8 SG2.0>1@12 RG1.0<1@12 B2.1@11 SG2.1>1@15 RG1.1<1@15 B0.0@14 "
      "B0.1@17 DG0@19 DN@19 OPT@21\n"
      "1: RA0.0<0 RA0.1<0 F1.0@0 SA1.0>0@2 RA2.0<0@2 F1.1@1 SA1.1>0@5 F3.0@4 RA2.1<0@7 B3.0 "
      "SG3.0>0@9 F3.1@8 RG2.0<0@11 B3.1 SG3.1>0@13 DG3@13 RG2.1<0@13 B1.0@12 SG1.0>0@17 B1.1@16 "
      "SG1.1>0@19 DG1@19 DN@19 OPT@22\n",
      "stage 0", "expected 1 DG of chunk 2, found 0" },
    { "0: F0.0 B0.0 DT>0@1 DN@1 OPT@3\n", "stage 0, instruction 2", "expected 0 DT, found 1" },
    { "0: F0.0 B0.0 OPT\n", "stage 0", "expected 1 DN, found 0" },
    { "0: F0.0 B0.0 DN@1 DN@1 OPT@3\n", "stage 0, instruction 3", "expected 1 DN, found 2" },
    { "0: F0.0 B0.0 DN@0 OPT@2\n", "stage 0, instruction 2",
      "DN@0 may start before B0.0 (instruction 1) has finished" },
    { "0: F0.0 BI0.0 DN@1 OPT@2\n", "stage 0",
      "expected BW for chunk 0, microbatch 0; found none" },
    { "0: F0.0 BW0.0 DN@1 OPT@2\n", "stage 0",
      "expected BI for chunk 0, microbatch 0; found none" },
    { "0: F0.0 BW0.0 BI0.0 DN@2 OPT@3\n", "stage 0, instruction 1",
      "BW0.0 may start before BI0.0 (instruction 2) has finished" },
    { "0: F0.0 BI0.0 BW0.0 BI0.0 DN@3 OPT@4\n", "stage 0, instruction 3",
      "BI0.0 repeats instruction 1" },
    { "0: F0.0 BI0.0 BW0.0 BW0.0 DN@3 OPT@4\n", "stage 0, instruction 3",
      "BW0.0 repeats instruction 2" },
    { "0: F0.0 BI0.0 BW0.0 B0.0 DN@3 OPT@4\n", "stage 0, instruction 3",
      "B0.0 is a whole backward, but BI0.0 is a half of the same one" },
    { "0: F0.0& F1.0 B1.0 B0.0 DN@3 OPT@4\n", "stage 0, instruction 1",
      "F1.0& does not belong to a pair of a forward and the backward right after it" },
    { "0: F0.0& B0.0 DN@1 OPT@2\n", "stage 0, instruction 0",
      "F0.0& is not followed by the backward of another chunk, its pair" },
    { "0: F0.0& B1.0 F1.0 B0.0 DN@3 OPT@4\n", "stage 0, instruction 0",
      "F0.0& may start before F1.0 (instruction 2) has finished" },
    { "0: F0.0 BI0.0 BW0.0 DN@1 OPT@3\n", "stage 0, instruction 3",
      "DN@1 may start before BW0.0 (instruction 2) has finished" },
    { "0: F0.0 BI0.0 DG0@1 BW0.0 DN@3 OPT@4\n", "stage 0, instruction 2",
      "DG0@1 may start before BW0.0 (instruction 3) has finished" },
    { "0: RG1.0<1 F0.0 SA0.0>1@1 BI0.0 BW0.0 DN@4 OPT@5\n"
      "1: RA0.0<0 F1.0@0 BI1.0 SG1.0>0@2 BW1.0 DN@4 OPT@5\n",
      "stage 0, instruction 3", "BI0.0 may start before RG1.0<1 (instruction 0) has finished" },
    { "0: F0.0 B0.0 DN@1 OPT\n", "stage 0, instruction 3",
      "OPT may start before DN@1 (instruction 2) has finished" },
};

START_TEST(an_error_of_the_check_names_its_place_and_the_expectation)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_parse(faults[_i].text, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s: %s", err.where, err.msg);
    ck_assert(!schedule_check(schedule, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    ck_assert_str_eq(err.msg, faults[_i].msg);
}
END_TEST

static void assert_fault(const char *text, const char *where, const char *msg)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_parse(text, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s: %s", err.where, err.msg);
    ck_assert(!schedule_check(schedule, &err));
    ck_assert_str_eq(err.where, where);
    ck_assert_str_eq(err.msg, msg);
}

/* Stage 1 needs both forwards before it sends a gradient; stage 0 needs the first gradient before
 * its second forward. Each of the two lists alone is valid. */
START_TEST(a_deadlock_of_two_stages_names_both)
{
    assert_fault("0: F0.0 SA0.0>1@0 RG1.0<1 B0.0@2 F0.1 SA0.1>1@4 RG1.1<1@3 B0.1@6 DN@7 OPT@8\n"
                 "1: RA0.0<0 F1.0@0 RA0.1<0 F1.1@2 B1.0 SG1.0>0@4 B1.1 SG1.1>0@6 DN@6 OPT@8\n",
                 "stage 0, instruction 2",
                 "deadlock: stage 0 waits in RG1.0<1, stage 1 waits in RA0.1<0");
}
END_TEST

START_TEST(reordered_messages_on_a_link_are_detected)
{
    assert_fault("0: F0.0 SA0.0>1@0 F0.1 SA0.1>1@2 RG1.0<1@0 B0.0@4 RG1.1<1@2 B0.1@6 DN@7 OPT@8\n"
                 "1: RA0.1<0 F1.1@0 RA0.0<0 F1.0@2 B1.0 SG1.0>0@4 B1.1 SG1.1>0@6 DN@6 OPT@8\n",
                 "stage 1, instruction 0",
                 "RA0.1<0 meets SA0.0>1@0 of stage 0; a link's messages must be sent and received "
                 "in the same order");
}
END_TEST

static int compute_before(const struct instrs *list, int i)
{
    for (i--; i >= 0; i--)
        if (opcode_infos[list->at[i].op].lane == LANE_COMPUTE)
            return i;
    return NO_INSTR;
}

/* A lowered list posts each receive as early as allowed: during the pass before the one that
 * needs the message (of a pair, before the first), or schedule_lead() passes earlier. */
START_TEST(a_receive_posted_one_compute_instruction_earlier_fails)
{
    struct schedule *sound = specimen(_i);
    int moved = 0;
    for (int stage = 0; stage < sound->shape.num_stages; stage++)
        for (int i = 0; i < sound->ranks[stage].count; i++) {
            struct schedule *broken = copy_of(sound);
            struct instrs *list = &broken->ranks[stage];
            if (!instr_is_receive(list->at[i].op) || list->at[i].after == NO_INSTR)
                continue;
            list->at[i].after = compute_before(list, list->at[i].after);
            ck_assert_msg(!passes(broken),
                          "accepted: stage %d, instruction %d, %s, with a changed dependency",
                          stage, i, text_of(&list->at[i]));
            moved++;
        }
    ck_assert_int_gt(moved, 0);
}
END_TEST

START_TEST(the_first_instruction_that_a_receive_may_precede_is_named)
{
    assert_fault("0: F0.0 SA0.0>1@0 F0.1 SA0.1>1@2 RG1.0<1 B0.0@4 RG1.1<1@2 B0.1@6 DN@7 OPT@8\n"
                 "1: RA0.0<0 F1.0@0 RA0.1<0 F1.1@2 B1.0 SG1.0>0@4 B1.1 SG1.1>0@6 DN@6 OPT@8\n",
                 "stage 0, instruction 4",
                 "RG1.0<1 may start before F0.0 (instruction 0) has finished");
}
END_TEST

static int nth_reduction(const struct instrs *list, int n)
{
    int i = -1;
    do
        i++;
    while (list->at[i].op != INSTR_REDUCE_GRAD || n-- > 0);
    return i;
}

/* Moves an instruction to a later place. No instruction between the two places may wait for it. */
static void move(struct instrs *list, int from, int to)
{
    struct instr moved = list->at[from];
    memmove(&list->at[from], &list->at[from + 1], (size_t)(to - from) * sizeof moved);
    list->at[to] = moved;
    for (int i = from; i < list->count; i++)
        list->at[i].after -= list->at[i].after > from && list->at[i].after <= to;
}

/* In DualPipe stages s and p - 1 - s hold the same two parts of the model. If one of the stages
 * reduced the gradients of its parts in the other order, each stage would wait for the other. */
START_TEST(mirrored_stages_reduce_their_parts_in_the_same_order)
{
    struct schedule *broken =
        lowered("dualpipe", (struct schedule_shape){ 4, 2, 4, 0 }, lowering_of(2));
    struct instrs *list = &broken->ranks[1];
    struct err err = { 0 };
    ck_assert(passes(broken));
    move(list, nth_reduction(list, 0), nth_reduction(list, 1));
    ck_assert(!schedule_check(broken, &err));
    ck_assert_msg(
        strstr(err.msg, "reduces another part of the model than its counterpart on stage 2"),
        "%s: %s", err.where, err.msg);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("check");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, every_generators_schedule_passes_the_check_under_any_lowering, 0,
                        TURNS(NUM_LOWERINGS));
    tcase_add_test(tc, a_random_shape_of_two_directions_is_free_of_deadlock);
    tcase_add_test(tc, a_v_of_few_microbatches_leaves_out_the_missing_ones);
    tcase_add_test(tc, a_schedule_of_a_million_instructions_is_checked);
    tcase_add_loop_test(tc, a_schedule_without_any_one_of_its_instructions_fails, 0,
                        LENGTH(specimens));
    tcase_add_loop_test(tc, a_schedule_that_repeats_any_of_its_instructions_fails, 0,
                        LENGTH(specimens));
    tcase_add_loop_test(tc, swapping_any_neighbours_on_a_lane_of_1f1b_fails, 0, 3);
    tcase_add_loop_test(tc, changing_any_chunk_microbatch_or_peer_fails, 0, LENGTH(specimens));
    tcase_add_loop_test(tc, a_microbatch_out_of_range_is_named, 0, LENGTH(specimens));
    tcase_add_loop_test(tc, removing_any_edge_fails, 0, 2);
    tcase_add_test(tc, an_order_implied_by_other_edges_passes);
    tcase_add_loop_test(tc, an_error_of_the_check_names_its_place_and_the_expectation, 0,
                        LENGTH(faults));
    tcase_add_test(tc, a_deadlock_of_two_stages_names_both);
    tcase_add_test(tc, reordered_messages_on_a_link_are_detected);
    tcase_add_loop_test(tc, a_receive_posted_one_compute_instruction_earlier_fails, 0,
                        LENGTH(specimens));
    tcase_add_test(tc, mirrored_stages_reduce_their_parts_in_the_same_order);
    tcase_add_test(tc, the_first_instruction_that_a_receive_may_precede_is_named);
    Suite *s = suite_create("sim/schedule/check");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
