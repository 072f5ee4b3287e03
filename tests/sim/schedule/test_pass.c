#include "sim/plan/pass.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

static const enum opcode passes[] = { INSTR_FORWARD, INSTR_BACKWARD, INSTR_BACKWARD_INPUT,
                                      INSTR_BACKWARD_WEIGHT };
enum { NUM_PASSES = LENGTH(passes), MOST_LAYERS = 6, MOST_UNITS = 64 };

/* --- hand calculations -------------------------------------------------------------------- */

static const char *const words[] = { "gather", "drop",    "open",   "reduce",
                                     "settle", "forward", "replay", "backward" };

static void check_steps(const struct pass_chunk *chunk, enum opcode op, const char *expected)
{
    struct arena arena = { 0 };
    struct text text = { 0 };
    struct pass_steps steps = pass_steps(chunk, op, &arena);
    for (int i = 0; i < steps.count; i++)
        text_add(&text, "%s%s %d", i > 0 ? ", " : "", words[steps.at[i].op], steps.at[i].index);
    ck_assert_str_eq(text_get(&text), expected);
    text_release(&text);
    arena_release(&arena);
}

/* A pass runs pieces (layers, embedding, head) and gathers units (groups of weights). Here all
 * pieces are layers, and piece i has the unit 2i. */
START_TEST(parameters_are_gathered_one_piece_ahead_and_freed_after_use)
{
    struct pass_chunk chunk = { .layers = 3, .every = 1, .gathers = true, .prefetch = 1 };
    check_steps(&chunk, INSTR_FORWARD,
                "gather 0, gather 2, forward 0, drop 0, gather 4, forward 1, drop 2, forward 2, "
                "drop 4");
    chunk.prefetch = 0;
    check_steps(&chunk, INSTR_FORWARD,
                "gather 0, forward 0, drop 0, gather 2, forward 1, drop 2, gather 4, forward 2, "
                "drop 4");
}
END_TEST

START_TEST(gradients_are_reduced_during_the_next_pieces_backward_after_its_gather)
{
    struct pass_chunk chunk = {
        .layers = 3, .every = 1, .gathers = true, .reduces = true, .prefetch = 1
    };
    check_steps(&chunk, INSTR_BACKWARD,
                "open 4, gather 4, gather 2, backward 2, "
                "drop 4, open 2, gather 0, reduce 4, backward 1, "
                "drop 2, settle 4, open 0, reduce 2, backward 0, "
                "drop 0, settle 2, reduce 0, settle 0");
}
END_TEST

/* The chunk has one checkpoint for its three layers, so the backward first recomputes the forward
 * ("replay") from the first layer on. */
START_TEST(recomputed_layers_are_gathered_again)
{
    struct pass_chunk chunk = {
        .layers = 3, .recomputed = 3, .every = 3, .gathers = true, .prefetch = 0
    };
    check_steps(&chunk, INSTR_BACKWARD,
                "gather 0, replay 0, drop 0, gather 2, replay 1, drop 2, gather 4, replay 2, "
                "backward 2, drop 4, gather 2, backward 1, drop 2, gather 0, backward 0, drop 0");
}
END_TEST

/* The embedding has the units 0 (positions) and 1 (token embedding), the layer has unit 2, and the
 * head has unit 4 (norm) and the token embedding. */
START_TEST(a_tied_table_is_reduced_once_and_not_gathered_for_its_gradient)
{
    struct pass_chunk chunk = { .layers = 1,
                                .every = 1,
                                .has_embedding = true,
                                .has_head = true,
                                .is_tied = true,
                                .gathers = true,
                                .reduces = true };
    check_steps(&chunk, INSTR_FORWARD,
                "gather 0, gather 1, forward 0, drop 0, drop 1, gather 2, forward 1, drop 2, "
                "gather 4, gather 1, forward 2, drop 4, drop 1");
    check_steps(&chunk, INSTR_BACKWARD,
                "open 4, open 1, gather 4, gather 1, backward 2, "
                "drop 4, drop 1, open 2, gather 2, reduce 4, backward 1, "
                "drop 2, settle 4, open 0, reduce 2, backward 0, "
                "settle 2, reduce 0, reduce 1, settle 0, settle 1");
}
END_TEST

/* The same chunk with whole gradients: these are neither allocated nor freed in a pass, and no pass
 * waits for their sums. */
START_TEST(whole_gradients_are_reduced_once_after_their_last_addition)
{
    struct pass_chunk chunk = { .layers = 1,
                                .every = 1,
                                .has_embedding = true,
                                .has_head = true,
                                .is_tied = true,
                                .reduces_whole = true };
    check_steps(&chunk, INSTR_BACKWARD,
                "backward 2, reduce 4, backward 1, reduce 2, backward 0, reduce 0, reduce 1");
    chunk.is_tied = false; /* the head has a matrix of its own, unit 5 */
    check_steps(&chunk, INSTR_BACKWARD_WEIGHT,
                "backward 2, reduce 4, reduce 5, backward 1, reduce 2, backward 0, reduce 0, "
                "reduce 1");
    check_steps(&chunk, INSTR_BACKWARD_INPUT, "backward 2, backward 1, backward 0");
}
END_TEST

/* --- laws --------------------------------------------------------------------------------- */

/* The state before a step of a pass. */
struct state {
    bool gathered[MOST_UNITS], open[MOST_UNITS], reducing[MOST_UNITS];
    int num_gathered, num_open, num_reduced;
};

static int units_of(const struct pass_chunk *chunk, int piece, int units[2])
{
    units[0] = pass_unit_of(piece);
    units[1] = pass_vocabulary_unit_of(chunk, piece);
    return units[1] < 0 ? 1 : 2;
}

static bool flip(bool *at, bool to, int *count)
{
    bool ok = *at != to;
    *at = to;
    *count += to ? 1 : -1;
    return ok;
}

static bool can_run(const struct pass_chunk *chunk, enum opcode op, const struct state *state,
                    const struct pass_step *step)
{
    int units[2];
    bool ok = true;
    bool is_backward = step->op == STEP_BACKWARD;
    bool reads = chunk->gathers && op != INSTR_BACKWARD_WEIGHT &&
                 !(is_backward && chunk->has_embedding && step->index == 0);
    for (int u = units_of(chunk, step->index, units) - 1; u >= 0; u--) {
        ok &= !reads || state->gathered[units[u]];
        ok &= !is_backward || !(chunk->reduces || chunk->keeps) ||
              (state->open[units[u]] && !state->reducing[units[u]]);
    }
    /* Limits of the allocated memory. The running piece and the prefetched ones have at most two
     * units each. Gradients exist for at most two pieces, plus the tied embedding of the head,
     * which waits for the backward of the embedding. If sums are kept until the last microbatch, no
     * gradients are freed. */
    return ok && state->num_gathered <= 2 * (chunk->prefetch + 1) &&
           (op == INSTR_BACKWARD_INPUT || chunk->keeps || state->num_open <= 5);
}

static bool take_step(const struct pass_chunk *chunk, enum opcode op, struct state *state,
                      const struct pass_step *step)
{
    int at = step->index;
    switch (step->op) {
    case STEP_GATHER:
        return flip(&state->gathered[at], true, &state->num_gathered);
    case STEP_DROP:
        return flip(&state->gathered[at], false, &state->num_gathered);
    case STEP_OPEN:
        return flip(&state->open[at], true, &state->num_open);
    case STEP_REDUCE:
        return state->open[at] && flip(&state->reducing[at], true, &state->num_reduced);
    case STEP_SETTLE:
        return state->reducing[at] && flip(&state->open[at], false, &state->num_open);
    case STEP_FORWARD:
    case STEP_REPLAY:
    case STEP_BACKWARD:
        return can_run(chunk, op, state, step);
    }
    return false;
}

static int num_units(const struct pass_chunk *chunk)
{
    bool seen[MOST_UNITS] = { 0 };
    int units[2], count = 0;
    for (int piece = 0; piece < pass_pieces(chunk); piece++)
        for (int u = units_of(chunk, piece, units) - 1; u >= 0; u--) {
            count += !seen[units[u]];
            seen[units[u]] = true;
        }
    return count;
}

/* Whether each pass of a piece has the values that it needs, nothing is allocated twice, and
 * nothing remains allocated at the end. */
static bool is_right(const struct pass_chunk *chunk, enum opcode op, struct arena *arena)
{
    struct state state = { 0 };
    struct pass_steps steps = pass_steps(chunk, op, arena);
    int runs = 0;
    bool ok = true;
    for (int i = 0; i < steps.count && ok; i++) {
        ok = take_step(chunk, op, &state, &steps.at[i]);
        runs += steps.at[i].op == STEP_FORWARD || steps.at[i].op == STEP_BACKWARD;
    }
    bool opens = (chunk->reduces || chunk->keeps) && op != INSTR_FORWARD;
    bool reduces = opens && chunk->reduces && op != INSTR_BACKWARD_INPUT;
    return ok && runs == pass_pieces(chunk) && state.num_gathered == 0 &&
           state.num_reduced == (reduces ? num_units(chunk) : 0) &&
           state.num_open == (opens && !reduces ? num_units(chunk) : 0);
}

START_TEST(every_step_has_its_values_and_a_pass_leaves_nothing_allocated)
{
    struct arena arena = { 0 };
    for (int bits = 0; bits < 3 << 4; bits++) /* passes that reduce their gradients keep none */
        for (int layers = 0; layers <= MOST_LAYERS; layers++)
            for (int recomputed = 0; recomputed <= layers; recomputed++)
                for (int every = 1; every <= 3; every++)
                    for (int prefetch = 0; prefetch <= 3; prefetch++) {
                        struct pass_chunk chunk = { layers,     bits & 1,  bits & 2, bits & 4,
                                                    recomputed, every,     bits & 8, bits & 16,
                                                    prefetch,   bits & 32, false };
                        if (!is_right(&chunk, passes[_i], &arena))
                            ck_abort_msg("wrong pass: layers %d, bits %d, recomputed %d, every %d, "
                                         "prefetch %d",
                                         layers, bits, recomputed, every, prefetch);
                        arena_release(&arena);
                    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("pass");
    tcase_add_test(tc, parameters_are_gathered_one_piece_ahead_and_freed_after_use);
    tcase_add_test(tc, gradients_are_reduced_during_the_next_pieces_backward_after_its_gather);
    tcase_add_test(tc, recomputed_layers_are_gathered_again);
    tcase_add_test(tc, a_tied_table_is_reduced_once_and_not_gathered_for_its_gradient);
    tcase_add_test(tc, whole_gradients_are_reduced_once_after_their_last_addition);
    tcase_add_loop_test(tc, every_step_has_its_values_and_a_pass_leaves_nothing_allocated, 0,
                        NUM_PASSES);
    Suite *s = suite_create("sim/schedule/pass");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
