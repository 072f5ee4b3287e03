#include "tests/testing.h"

#include "search/space.h"
#include "tests/search/naive_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model small = { .layers = 12,
                                    .hidden = 768,
                                    .heads = 12,
                                    .kv_heads = 12,
                                    .head_dim = 64,
                                    .ffn = 3072,
                                    .vocab = 50257,
                                    .seq = 1024,
                                    .max_positions = 1024,
                                    .batch = 48 };

static const struct model *walked;

enum { MAX_SEEN = 40000 };

/* The candidates that a walk visited. */
struct seen {
    struct plan plans[MAX_SEEN];
    int count;
    double broken[64]; /* number of excluded candidates, for each rule */
    double excluded;
    int stop_after; /* number of candidates to stop after; 0: never */
};

static bool remember(void *context, const struct plan *plan)
{
    struct seen *seen = context;
    ck_assert_int_lt(seen->count, MAX_SEEN);
    seen->plans[seen->count++] = *plan;
    return seen->count != seen->stop_after;
}

static void count_excluded(void *context, const struct plan_rule *rule, double count)
{
    struct seen *seen = context;
    seen->broken[plan_rule_number(rule)] += count;
    seen->excluded += count;
}

static void walk(const struct space *space, struct seen *seen)
{
    struct visitor visitor = { remember, count_excluded, seen };
    for (size_t block = 0; block < space_num_blocks(space); block++)
        if (!space_walk_block(space, block, &visitor))
            return;
}

static struct arena arena;
static struct seen *seen;

static void set_up(void)
{
    seen = calloc(1, sizeof *seen);
    walked = &small;
}

static void tear_down(void)
{
    free(seen);
    arena_release(&arena);
}

/* The space of the model with these fixed and forbidden words. */
static struct space new_space(int num_gpus, const char *fix, const char *forbid)
{
    struct plan base = plan_default();
    struct space_request request = { .model = walked,
                                     .num_gpus = num_gpus,
                                     .base = &base,
                                     .fix = fix,
                                     .forbid = forbid,
                                     .chunks = CHUNKS_MEGATRON };
    struct space space;
    struct err err = { 0 };
    bool ok = space_new(&request, &arena, &space, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    return space;
}

static void walk_words(int num_gpus, const char *fix, const char *forbid)
{
    struct space space = new_space(num_gpus, fix, forbid);
    walk(&space, seen);
}

static const int gpu_counts[] = { 1, 2, 6, 8, 24, 64, 97, 144 };

START_TEST(the_default_space_equals_nested_loops_in_documented_order)
{
    int num_gpus = gpu_counts[_i];
    struct naive_space naive = naive_space_new(&small, num_gpus);
    double broken[64] = { 0 };
    walk_words(num_gpus, NULL, NULL);
    int kept = 0;
    for (int i = 0; i < naive.count; i++) {
        const struct plan_rule *rule = naive_rule(&naive.at[i], &small, num_gpus, NULL);
        if (rule) {
            broken[plan_rule_number(rule)]++;
            continue;
        }
        ck_assert_int_lt(kept, seen->count);
        ck_assert_msg(plan_equal(&naive.at[i], &seen->plans[kept]), "candidate %d differs", kept);
        kept++;
    }
    ck_assert_int_eq(kept, seen->count);
    for (int i = 0; i < plan_num_rules(); i++)
        ck_assert_msg(
            broken[i] == seen->broken[i],
            "rule %s rules out %g plans of a list of all plans, but %g plans of the space",
            plan_rule_at(i)->name, broken[i], seen->broken[i]);
    free(naive.at);
}
END_TEST

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

START_TEST(no_two_candidates_have_the_same_layout)
{
    struct naive_space naive = naive_space_new(&small, 24);
    char **texts = calloc((size_t)naive.count, sizeof *texts);
    for (int i = 0; i < naive.count; i++)
        texts[i] = naive_layout(&naive.at[i]);
    qsort(texts, (size_t)naive.count, sizeof *texts, compare_texts);
    for (int i = 1; i < naive.count; i++)
        ck_assert_str_ne(texts[i - 1], texts[i]);
    for (int i = 0; i < naive.count; i++)
        free(texts[i]);
    free(texts);
    free(naive.at);
}
END_TEST

START_TEST(fixed_words_are_in_every_candidate)
{
    walk_words(16, "tp4 zero1 sp", NULL);
    ck_assert_int_gt(seen->count, 0);
    for (int i = 0; i < seen->count; i++) {
        ck_assert_int_eq(seen->plans[i].tp, 4);
        ck_assert_int_eq(seen->plans[i].zero, 1);
        ck_assert(seen->plans[i].sp);
    }
}
END_TEST

/* All values that a word may have. So the spaces with each of them fixed, taken together, are the
 * whole space. */
static const char *const values[][8] = {
    { "zero0", "zero1", "zero2", "zero3" },
    { "tp1", "tp2", "tp4", "tp8", "tp16" },
    { "pp1", "pp2", "pp4", "pp8", "pp16" },
    { "mtp=beside", "mtp=apart" },
    { "recompute=none", "recompute=selective", "recompute=full" },
};

/* Number of plans with the word fixed, including plans that break a rule. */
static double count_fixed(const char *word)
{
    memset(seen, 0, sizeof *seen);
    walk_words(16, word, NULL);
    return seen->count + seen->excluded;
}

START_TEST(each_value_of_a_word_keeps_all_candidates_that_have_it)
{
    struct model own = small;
    own.mtp = 1;
    walked = &own;
    double all = count_fixed(NULL), sum = 0;
    for (int i = 0; values[_i][i]; i++) {
        double count = count_fixed(values[_i][i]);
        ck_assert_msg(count > 0 && count < all, "%s leaves %g of %g candidates", values[_i][i],
                      count, all);
        sum += count;
    }
    ck_assert_msg(sum == all, "%s and the word's other values give %g of %g candidates",
                  values[_i][0], sum, all);
}
END_TEST

/* If a plan is added to the space, its values are inserted in increasing order into the lists of
 * values, unless a list already has them. The cases have values below, between and above those of a
 * list. */
START_TEST(the_values_of_an_added_plan_are_inserted_in_order)
{
    static const struct {
        int microbatch, list[9];
    } rows[] = { { 8, { 1, 2, 4, 8, 16 } },
                 { 1, { 1, 2, 4, 8, 16 } },
                 { 3, { 1, 2, 3, 4, 8, 16 } },
                 { 24, { 1, 2, 4, 8, 16, 24 } } };
    for (int row = 0; row < LENGTH(rows); row++) {
        struct plan base = plan_default(), also = plan_default();
        struct space_request request = {
            .model = &small, .num_gpus = 2, .base = &base, .chunks = CHUNKS_MEGATRON, .also = &also
        };
        struct space space;
        struct err err = { 0 };
        also.dp = 2;
        also.microbatch = rows[row].microbatch;
        ck_assert_msg(space_new(&request, &arena, &space, &err), "%s: %s", err.where, err.msg);
        int count = 0;
        for (; rows[row].list[count]; count++)
            ck_assert_int_eq(space.microbatch.at[count], rows[row].list[count]);
        ck_assert_int_eq(space.microbatch.count, count);
    }
}
END_TEST

/* Adds the layout's plan to the default space and returns how often the space then has this plan.
 */
static int times_with(const char *layout, const char *fix, const char *forbid)
{
    struct plan base = plan_default(), also;
    struct space_request request = { .model = &small,
                                     .num_gpus = 4,
                                     .base = &base,
                                     .fix = fix,
                                     .forbid = forbid,
                                     .chunks = CHUNKS_MEGATRON,
                                     .also = &also };
    struct space space;
    struct err err = { 0 };
    int times = 0;
    bool ok = plan_parse(layout, &arena, &also, &err) && plan_derive_data(&also, 4, &err) &&
              space_new(&request, &arena, &space, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    seen->count = 0;
    walk(&space, seen);
    for (int i = 0; i < seen->count; i++)
        times += plan_equal(&seen->plans[i], &also);
    return times;
}

/* Layouts with words that few other plans have. If the word `other` is fixed, the layout is
 * excluded; if the layout's last word is forbidden, it is excluded too. */
static const struct {
    const char *layout, *other;
} added[] = {
    { "pp2 mb2 zero1", "zero0" },
    { "pp2 zero1 mb2", "mb1" },
    { "pp2 mb2 recompute=block:3", "recompute=none" },
    { "pp2 mb2 recompute=block:3,1", "recompute=none" },
    { "pp4 mb1 recompute=block-share:0.5", "recompute=none" },
    { "pp2 mb2 recompute=full:2", "recompute=none" },
    { "pp2 mb2 recompute=selective:mlp", "recompute=none" },
    { "pp2 mb2 recompute=selective:mlp,none", "recompute=none" },
    { "pp2 mb8 vpp1 stages=7,5", "vpp2" },
    { "pp2 mb2 vpp3 stages=3,1,2,2,2,2", "vpp2" },
    { "mb2 pp2 vpp3", "vpp1" },
    { "mb4 tp4", "tp1" },
    { "mb2 pp2 tp2 sp", "sp0" },
    { "mb1 cp2", "cp1" },
};

START_TEST(a_space_has_the_added_plan_once_unless_a_word_excludes_it)
{
    const char *layout = added[_i].layout;
    ck_assert_int_eq(times_with(layout, NULL, NULL), 1);
    ck_assert_int_eq(times_with(layout, added[_i].other, NULL), 0);
    ck_assert_int_eq(times_with(layout, NULL, strrchr(layout, ' ') + 1), 0);
}
END_TEST

/* Values outside the lists, with the layout word that each candidate must then have. */
static const char *const outside[][2] = {
    { "tp3", "tp3 " },
    { "mb3", "mb3" },
    { "recompute=full:2", "recompute=full:2" },
    { "schedule=gpipe", "schedule=gpipe" },
    { "schedule=zb-h1", "schedule=zb-h1" },
    { "pp2 vpp1 stages=5,7", "stages=5,7" },
    { "recompute=block:1", "recompute=block:1" },
    { "dtype=fp16", "dtype=fp16" },
    { "dtype=bf16-pure", "dtype=bf16-pure" },
    { "dp4 tp1", "dp4 " },
    { "cp2 cp-comm=a2a", "cp2 cp-comm=a2a " },
};

START_TEST(a_fixed_value_may_be_outside_the_default_lists)
{
    walk_words(24, outside[_i][0], NULL);
    int shown = 0;
    for (int i = 0; i < seen->count; i++) {
        char *layout = naive_layout(&seen->plans[i]);
        bool pipelined = seen->plans[i].pp > 1 || strncmp(outside[_i][1], "sch", 3) != 0;
        if (pipelined)
            ck_assert_msg(strstr(layout, outside[_i][1]), "%s has no %s", layout, outside[_i][1]);
        shown += strstr(layout, outside[_i][1]) != NULL;
        free(layout);
    }
    ck_assert_int_gt(shown, 0);
}
END_TEST

START_TEST(given_chunk_layers_determine_vpp)
{
    walk_words(24, "pp2 stages=2,4,4,2", NULL);
    ck_assert_int_gt(seen->count, 0);
    for (int i = 0; i < seen->count; i++)
        ck_assert_int_eq(seen->plans[i].vpp, 2);
    seen->count = 0;
    walk_words(24, "pp1 stages=12", NULL); /* one chunk */
    ck_assert_int_gt(seen->count, 0);
    for (int i = 0; i < seen->count; i++)
        ck_assert_int_eq(seen->plans[i].vpp, 1);
}
END_TEST

START_TEST(a_fixed_word_replaces_that_of_the_base_plan)
{
    struct plan base = plan_default();
    base.precision = PRECISION_FP16;
    base.optimizer = OPTIMIZER_SGD;
    struct space_request request = { .model = &small,
                                     .num_gpus = 8,
                                     .base = &base,
                                     .fix = "dtype=bf16 tp2",
                                     .forbid = NULL,
                                     .chunks = CHUNKS_MEGATRON };
    struct space space;
    struct err err = { 0 };
    ck_assert(space_new(&request, &arena, &space, &err));
    ck_assert_int_eq(space.base.precision, PRECISION_BF16);
    ck_assert_int_eq(space.base.optimizer, OPTIMIZER_SGD);
}
END_TEST

START_TEST(degrees_that_do_not_divide_the_gpus_are_excluded_by_that_rule)
{
    walk_words(16, "tp3", NULL);
    ck_assert_int_eq(seen->count, 0);
    ck_assert_double_gt(seen->excluded, 0);
    ck_assert_str_eq(plan_rule_at(1)->name, "gpus");
    ck_assert_double_eq(seen->broken[1], seen->excluded);
}
END_TEST

/* Forbidden words, and the smallest and largest remaining values of a layout word on 16 GPUs. */
static const struct {
    const char *words;
    size_t member;
    int least, most;
} forbidden[] = {
    { "tp", offsetof(struct plan, tp), 1, 1 },
    { "tp1 tp4 tp8 tp16", offsetof(struct plan, tp), 2, 2 },
    { "pp", offsetof(struct plan, pp), 1, 1 },
    { "dp", offsetof(struct plan, dp), 1, 1 },
    { "vpp", offsetof(struct plan, vpp), 1, 1 },
    { "schedule=interleaved", offsetof(struct plan, vpp), 1, 1 },
    { "schedule=1f1b", offsetof(struct plan, vpp), 2, 7 },
    { "zero0", offsetof(struct plan, zero), 1, 3 },
    { "zero", offsetof(struct plan, zero), 0, 0 },
    { "mb1 mb16", offsetof(struct plan, microbatch), 2, 8 },
    { "recompute=none recompute=selective", offsetof(struct plan, recompute), RECOMPUTE_FULL,
      RECOMPUTE_FULL },
    { "cp ep", offsetof(struct plan, cp), 1, 1 },
    { "cp1 cp8", offsetof(struct plan, cp), 2, 4 },
};

START_TEST(forbidden_values_are_in_no_candidate)
{
    walk_words(16, NULL, forbidden[_i].words);
    ck_assert_int_gt(seen->count, 0);
    for (int i = 0; i < seen->count; i++) {
        int value;
        memcpy(&value, (const char *)&seen->plans[i] + forbidden[_i].member, sizeof value);
        ck_assert_int_ge(value, forbidden[_i].least);
        ck_assert_int_le(value, forbidden[_i].most);
    }
}
END_TEST

START_TEST(forbidding_a_list_of_layers_excludes_the_plans_that_have_it)
{
    char words[40];
    int have = 0, before = 0, i = 0;
    walk_words(16, "tp1", NULL);
    while (seen->plans[i].num_chunk_layers != 2)
        i++;
    const int *layers = seen->plans[i].chunk_layers;
    snprintf(words, sizeof words, "stages=%d,%d", layers[0], layers[1]);
    for (i = 0; i < seen->count; i++)
        have += seen->plans[i].num_chunk_layers == 2 && seen->plans[i].chunk_layers[0] == layers[0];
    before = seen->count;
    memset(seen, 0, sizeof *seen);
    walk_words(16, "tp1", words);
    ck_assert(have > 0 && have < before);
    ck_assert_int_eq(seen->count, before - have);
}
END_TEST

START_TEST(sequence_parallel_can_be_forbidden_both_ways)
{
    walk_words(16, NULL, "sp");
    for (int i = 0; i < seen->count; i++)
        ck_assert(!seen->plans[i].sp);
    memset(seen, 0, sizeof *seen);
    walk_words(16, NULL, "sp0");
    ck_assert_int_gt(seen->count, 0);
    for (int i = 0; i < seen->count; i++)
        ck_assert(seen->plans[i].sp && seen->plans[i].tp > 1);
}
END_TEST

START_TEST(forbidding_the_only_value_leaves_no_candidate)
{
    walk_words(16, NULL, "dtype=bf16");
    ck_assert_double_eq(seen->count + seen->excluded, 0);
}
END_TEST

/* The words of --fix, the words of --forbid, and the word that the error must name. */
static const char *const faults[][3] = {
    { "tp8 zreo1", NULL, "zreo1" }, { NULL, "tp8 foo", "foo" },
    { "pp", NULL, "pp" },           { "tp8 tp4", NULL, "tp4" },
    { NULL, "zero7", "zero7" },     { "recompute=some", NULL, "recompute=some" },
    { NULL, "sp2", "sp2" },         { "schedule=zig", NULL, "schedule=zig" },
};

START_TEST(unknown_words_are_usage_errors_naming_the_word)
{
    struct plan base = plan_default();
    struct space_request request = { .model = &small,
                                     .num_gpus = 8,
                                     .base = &base,
                                     .fix = faults[_i][0],
                                     .forbid = faults[_i][1],
                                     .chunks = CHUNKS_MEGATRON };
    struct space space;
    struct err err = { 0 };
    ck_assert(!space_new(&request, &arena, &space, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, faults[_i][2]);
}
END_TEST

/* 12 layers have one split for some numbers of stages, and several for others. 14 layers on 4
 * stages have only splits that list the layers. */
START_TEST(the_plan_of_a_begun_block_has_one_of_its_splits)
{
    static const int layers[] = { 12, 14 };
    int with_one = 0;
    for (size_t i = 0; i < LENGTH(layers); i++) {
        struct model model = small;
        model.layers = layers[i];
        walked = &model;
        struct space space = new_space(24, NULL, NULL);
        struct visitor visitor = { remember, count_excluded, seen };
        for (size_t block = 0; block < space_num_blocks(&space); block++) {
            struct plan first;
            int splits = space_begin_block(&space, block, &visitor, &first);
            ck_assert(splits == 0 || space_split_of(&space, &first) >= 0);
            with_one += splits == 1 && first.chunk_layers;
        }
    }
    ck_assert_int_gt(with_one, 0);
}
END_TEST

START_TEST(a_visitor_can_end_the_walk)
{
    seen->stop_after = 7;
    walk_words(16, NULL, NULL);
    ck_assert_int_eq(seen->count, 7);
}
END_TEST

START_TEST(the_name_of_a_space_states_fixed_and_omitted_words)
{
    struct space space = new_space(8, " tp2", "pp");
    ck_assert_str_eq(space.name,
                     "layers divided as Megatron can; Megatron's rank order; all values of tp cp "
                     "pp dp mb vpp sp zero recompute; ep 1; fixed tp2; without pp");
}
END_TEST

static const char *const looks[][2] = {
    { "", "" },    { "", "pp" },       { "tp4 mb2", "" },
    { "pp5", "" }, { "dp8 vpp2", "" }, { "stages=5,7", "" },
};

/* A search for the fewest GPUs tests thousands of numbers of GPUs, so most of them must be excluded
 * by one check instead of a walk through the space. */
START_TEST(most_numbers_of_gpus_without_plans_are_excluded_by_one_check)
{
    int without = 0, ruled_out = 0;
    for (int num_gpus = 1; num_gpus <= 200; num_gpus++) {
        struct space space = new_space(num_gpus, looks[_i][0], looks[_i][1]);
        seen->count = 0;
        walk(&space, seen);
        without += seen->count == 0;
        ruled_out += !space_may_have_plans(&space);
        ck_assert_msg(seen->count == 0 || space_may_have_plans(&space),
                      "%d GPUs: the space has plans, but space_may_have_plans denies it", num_gpus);
    }
    bool is_fixed = *looks[_i][0] != '\0';
    ck_assert_int_gt(without, 100);
    ck_assert(is_fixed || 2 * ruled_out >= without);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("search/space");
    TCase *cases = tcase_create("space");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_loop_test(cases, the_default_space_equals_nested_loops_in_documented_order, 0,
                        LENGTH(gpu_counts));
    tcase_add_test(cases, no_two_candidates_have_the_same_layout);
    tcase_add_test(cases, fixed_words_are_in_every_candidate);
    tcase_add_test(cases, the_values_of_an_added_plan_are_inserted_in_order);
    tcase_add_loop_test(cases, a_space_has_the_added_plan_once_unless_a_word_excludes_it, 0,
                        LENGTH(added));
    tcase_add_loop_test(cases, each_value_of_a_word_keeps_all_candidates_that_have_it, 0,
                        LENGTH(values));
    tcase_add_loop_test(cases, a_fixed_value_may_be_outside_the_default_lists, 0, LENGTH(outside));
    tcase_add_test(cases, given_chunk_layers_determine_vpp);
    tcase_add_test(cases, a_fixed_word_replaces_that_of_the_base_plan);
    tcase_add_test(cases, degrees_that_do_not_divide_the_gpus_are_excluded_by_that_rule);
    tcase_add_loop_test(cases, forbidden_values_are_in_no_candidate, 0, LENGTH(forbidden));
    tcase_add_test(cases, forbidding_a_list_of_layers_excludes_the_plans_that_have_it);
    tcase_add_test(cases, sequence_parallel_can_be_forbidden_both_ways);
    tcase_add_test(cases, forbidding_the_only_value_leaves_no_candidate);
    tcase_add_loop_test(cases, unknown_words_are_usage_errors_naming_the_word, 0, LENGTH(faults));
    tcase_add_loop_test(cases, most_numbers_of_gpus_without_plans_are_excluded_by_one_check, 0,
                        LENGTH(looks));
    tcase_add_test(cases, the_plan_of_a_begun_block_has_one_of_its_splits);
    tcase_add_test(cases, a_visitor_can_end_the_walk);
    tcase_add_test(cases, the_name_of_a_space_states_fixed_and_omitted_words);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
