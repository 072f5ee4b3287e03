#include "tests/testing.h"

#include "search/splits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

/* The layers of a split in words: "3 4x14 2"; "even" if all chunks are equal. */
static const char *words_of(const struct split *split, int chunks, char *text, size_t size)
{
    size_t length = 0;
    if (!split->layers)
        return "even";
    for (int first = 0, end; first < chunks; first = end) {
        for (end = first + 1; end < chunks && split->layers[end] == split->layers[first];)
            end++;
        int written = snprintf(text + length, size - length, end - first > 1 ? "%s%dx%d" : "%s%d",
                               first > 0 ? " " : "", split->layers[first], end - first);
        length += (size_t)written;
    }
    return text;
}

static const struct {
    const char *what;
    int layers, pp, vpp;
    double head; /* number of layers that have as many FLOPs as the head */
    const char *splits[5];
} cases[] = {
    { "GPT-3 175B", 96, 8, 12, 0.4, { "even" } },
    { "Llama 3 405B", 126, 16, 8, 0.7, { "0 1x126 0" } }, /* chunks have k = 1 layers, so the last
                                                             one cannot have k - 2 layers */
    { "DeepSeek-V3", 61, 16, 1, 1.2, { "3x2 4x13 3", "3 4x14 2", "4x15 1" } },
    { "BLOOM", 70, 12, 3, 1.5, { "1 2x34 1", "2x35 0" } },
    /* with 8 layers on the middle stages and 2 on the last, the first stage would need -2 */
    { "48 layers", 48, 8, 2, 0.5, { "even", "3x11 4 3x3 2" } },
    { "Llama 3 8B", 32, 2, 1, 2, { "even", "17 15" } },
    /* of 22 layers on 4 stages each middle stage gets 6, and the first and last get 5 and 5, or 6
     * and 4 */
    { "22 layers", 22, 4, 1, 0.5, { "5 6x2 5", "6x3 4" } },
};

START_TEST(usual_models_have_these_splits)
{
    struct model model = { .layers = cases[_i].layers };
    struct split_request request = { .model = &model,
                                     .pp = cases[_i].pp,
                                     .vpp = cases[_i].vpp,
                                     .space = CHUNKS_MEGATRON,
                                     .head_layers = cases[_i].head };
    struct splits splits = splits_of(&request, &arena);
    for (int i = 0; i < splits.count; i++) {
        char text[400];
        const char *words =
            words_of(&splits.at[i], cases[_i].pp * cases[_i].vpp, text, sizeof text);
        ck_assert_msg(cases[_i].splits[i] != NULL, "%s: unexpected split %s", cases[_i].what,
                      words);
        ck_assert_msg(strcmp(words, cases[_i].splits[i]) == 0,
                      "%s: found the split %s, expected %s", cases[_i].what, words,
                      cases[_i].splits[i]);
    }
    ck_assert_ptr_null(cases[_i].splits[splits.count]);
}
END_TEST

/* Returns the number of layers of the last stage. Each of its chunks has equally many layers, as
 * many as let the stage and the head take no longer than a middle stage. If a stage has several
 * chunks, each has at least one layer. */
static int light_last(int middle, int vpp, double head)
{
    int last = vpp * (int)floor((middle - head) / vpp), least = vpp == 1 ? 0 : vpp;
    return last < least ? least : last;
}

/* Returns the number of layers of a middle stage in the split whose last stage is light, found by
 * trying every number. Returns 0 if there is no such split. */
static int middle_by_hand(int layers, int pp, int vpp, double head)
{
    int middle = vpp;
    while (middle * pp < layers + head ||
           layers - (pp - 2) * middle - light_last(middle, vpp, head) > middle)
        middle += vpp;
    int last = light_last(middle, vpp, head), first = layers - (pp - 2) * middle - last;
    return last < middle && first >= (vpp == 1 ? 0 : vpp) ? middle : 0;
}

START_TEST(the_middle_stages_of_a_light_split_have_the_fewest_layers)
{
    int found = 0;
    for (int layers = 8; layers <= 64; layers++)
        for (int pp = 3; pp <= 8; pp++)
            for (int vpp = 1; vpp <= 3; vpp++) {
                struct model model = { .layers = layers };
                double head = 0.4 + layers % 5;
                struct split_request request = { .model = &model,
                                                 .pp = pp,
                                                 .vpp = vpp,
                                                 .space = CHUNKS_MEGATRON,
                                                 .head_layers = head };
                struct splits splits = splits_of(&request, &arena);
                int middle = middle_by_hand(layers, pp, vpp, head);
                for (int i = 0; i < splits.count; i++) {
                    if (splits.at[i].kind != SPLIT_LIGHT_LAST)
                        continue;
                    ck_assert_int_eq(splits.at[i].layers[1] * vpp, middle);
                    ck_assert_int_eq(splits.at[i].layers[pp - 1] * vpp,
                                     light_last(middle, vpp, head));
                    found++;
                }
            }
    ck_assert_int_gt(found, 100);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("search/splits");
    TCase *shapes = tcase_create("splits");
    tcase_add_checked_fixture(shapes, NULL, release);
    tcase_add_test(shapes, the_middle_stages_of_a_light_split_have_the_fewest_layers);
    tcase_add_loop_test(shapes, usual_models_have_these_splits, 0, LENGTH(cases));
    suite_add_tcase(s, shapes);
    return s;
}

TEST_MAIN(suite)
