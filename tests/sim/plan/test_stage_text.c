#include "sim/plan/stage_text.h"

#include "base/random.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

static struct arena arena;
static struct text text;
static struct err err;

static void release(void)
{
    arena_release(&arena);
    text_release(&text);
    err = (struct err){ 0 };
}

/* The layers of each chunk, in the form of the layout word stages=; then the number of modules for
 * later tokens, and their chunk. */
static const struct {
    const char *letters;
    const char *layers;
    int mtp, mtp_chunk;
    const char *written;
} readings[] = {
    { "EtL", "1", 0, 0, "EtL" },
    { "E|t|L", "0 1 0", 0, 2, "E|t|L" },
    /* Megatron-LM's own example and two that its parser accepted. */
    { "Ettt|(tt|)*3,m|L", "3 2 2 2 0 0", 1, 4, "Et*3|(tt|)*3m|L" },
    { "Et*11|(t*12|)*6t*13L", "11 12 12 12 12 12 12 13", 0, 7, "Et*11|(t*12|)*6t*13L" },
    { "Ett|(tt|)*6mL", "2 2 2 2 2 2 2 0", 1, 7, "Ett|(tt|)*6mL" },
    { "E|t*4|(t|)*3mL", "0 4 1 1 1 0", 1, 5, "E|t*4|(t|)*3mL" },
    { "e|T*2|l", "0 2 0", 0, 2, "E|tt|L" },
    { "Et*0|tt|tmmmL", "0 2 1", 3, 2, "E|tt|tm*3L" },
    { "E(t|t)*3L", "1 2 2 1", 0, 3, "Et|(tt|)*2tL" },
    { "Et|*3tL", "1 0 0 1", 0, 3, "Et|(|)*2tL" },
};

static const char *listed(const struct stage_text *stages)
{
    text_release(&text);
    for (int i = 0; i < stages->num_chunks; i++)
        text_add(&text, "%s%d", i ? " " : "", stages->layers[i]);
    return text_get(&text);
}

START_TEST(letters_give_the_layers_of_chunks)
{
    struct stage_text stages;
    ck_assert_msg(stage_text_read(readings[_i].letters, &arena, &stages, &err), "%s", err.msg);
    ck_assert_str_eq(listed(&stages), readings[_i].layers);
    ck_assert_int_eq(stages.mtp, readings[_i].mtp);
    ck_assert_int_eq(stages.mtp_chunk, readings[_i].mtp_chunk);
    text_release(&text);
    stage_text_write(&stages, &text);
    ck_assert_str_eq(text_get(&text), readings[_i].written);
}
END_TEST

static const struct {
    const char *letters;
    const char *says;
} refusals[] = {
    { "", "E once, as the first letter, found 0" },
    { "tL", "E once, as the first letter, found 0" },
    { "tEL", "E once, as the first letter, found 1" },
    { "EtEL", "found 2" },
    { "Et", "L once, as the last letter, found 0" },
    { "ELt", "L once, as the last letter, found 1" },
    { "EtLL", "found 2" },
    { "EtmtL", "every m after the last t" },
    { "Etm|mL", "every m in one chunk" },
    { "EtxL", "found \"xL\"" },
    { "E2tL", "found \"2tL\"" },
    { "Et*L", "a number from 0" },
    { "Et*99999999L", "a number from 0 to 1048576 in \"*99999999L\"" },
    { "E(t|L", "not closed" },
    { "EtL(|", "not closed" },
    { "EtL(|)", "expected *N" },
    { "E(t|)L", "expected *N" },
    { "E(t|)*xL", "expected *N" },
    { "E(t(t|)*2)*2L", "parentheses inside" },
    { "Et)L", "found \")L\"" },
    { "E(t*1024|)*1048576L", "more than 1048576 letters" },
};

START_TEST(letters_that_do_not_match_the_model_are_refused)
{
    struct stage_text stages;
    ck_assert_msg(!stage_text_read(refusals[_i].letters, &arena, &stages, &err), "%s is accepted",
                  refusals[_i].letters);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strstr(err.msg, refusals[_i].says), "\"%s\" lacks \"%s\"", err.msg,
                  refusals[_i].says);
}
END_TEST

START_TEST(stage_letters_round_trip)
{
    struct random random = random_new(7, 0);
    for (int turn = 0; turn < TURNS(400); turn++) {
        int layers[12];
        int num_chunks = 1 + random_below(&random, 12);
        int most = 1 + random_below(&random, 4);
        for (int i = 0; i < num_chunks; i++)
            layers[i] = random_below(&random, most);
        struct stage_text stages = { num_chunks, layers, random_below(&random, 3), num_chunks - 1 };
        int last = num_chunks - 1;
        while (last > 0 && layers[last] == 0)
            last--;
        if (stages.mtp > 0)
            stages.mtp_chunk = last + random_below(&random, num_chunks - last);
        struct stage_text back;
        text_release(&text);
        stage_text_write(&stages, &text);
        ck_assert_msg(stage_text_read(text_get(&text), &arena, &back, &err), "%s: %s",
                      text_get(&text), err.msg);
        ck_assert_int_eq(back.num_chunks, num_chunks);
        ck_assert_mem_eq(back.layers, layers, (size_t)num_chunks * sizeof *layers);
        ck_assert_int_eq(back.mtp, stages.mtp);
        ck_assert_int_eq(back.mtp_chunk, stages.mtp_chunk);
        release();
    }
}
END_TEST

START_TEST(even_and_uneven_plans_can_be_written_as_letters)
{
    static const char *const rows[][2] = {
        { "pp4", "Et*8|(t*8|)*2t*8L" },
        { "pp2 vpp4", "Et*4|(t*4|)*6t*4L" },
        { "pp4 stages=7,9,9,7", "Et*7|(t*9|)*2t*7L" },
        { "pp4 stages=E|t*16|t*16|L", "E|(t*16|)*2L" },
        { "pp1", "Et*32L" },
    };
    struct model model = { .layers = 32 };
    for (int i = 0; i < LENGTH(rows); i++) {
        struct plan plan = plan_of(rows[i][0], &arena);
        struct stage_text stages = stage_text_of(&plan, &model, 0, &arena);
        text_release(&text);
        stage_text_write(&stages, &text);
        ck_assert_str_eq(text_get(&text), rows[i][1]);
        ck_assert_msg(stage_text_check(&stages, &model, plan.pp, 0, &err), "%s", err.msg);
    }
}
END_TEST

static const struct {
    const char *letters;
    int pp, mtp;
    const char *says;
} checks[] = {
    { "Ett|ttL", 2, 0, NULL },
    { "Et|t|t|tL", 2, 0, NULL },
    { "Ett|ttmL", 2, 1, NULL },
    { "Et|t|t|tmL", 2, 1, NULL },
    { "Ett|tt|m|L", 4, 1, NULL },
    { "Ettttm|L", 2, 1, NULL },
    { "Ett|t|tL", 2, 0, "3 chunks are not a multiple of pp 2" },
    { "Ett|tL", 2, 0, "the chunks hold 3 of 4 layers" },
    { "Ett|ttL", 2, 1, "the layout has 0 modules that predict later tokens, but the model has 1" },
    { "Ett|ttm||L", 2, 1, "chunk 0 of rank 1; they need the rank's last, chunk 1" },
    { "Ett|tt|m|L", 2, 1, NULL },
};

START_TEST(chunks_are_checked_as_megatron_does)
{
    struct model model = { .layers = 4 };
    struct stage_text stages;
    ck_assert_msg(stage_text_read(checks[_i].letters, &arena, &stages, &err), "%s", err.msg);
    bool ok = stage_text_check(&stages, &model, checks[_i].pp, checks[_i].mtp, &err);
    ck_assert_msg(ok == !checks[_i].says, "%s: %s", checks[_i].letters, err.msg);
    if (!ok)
        ck_assert_msg(strstr(err.msg, checks[_i].says), "\"%s\" lacks \"%s\"", err.msg,
                      checks[_i].says);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("stage_text");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, letters_give_the_layers_of_chunks, 0, LENGTH(readings));
    tcase_add_loop_test(tc, letters_that_do_not_match_the_model_are_refused, 0, LENGTH(refusals));
    tcase_add_test(tc, stage_letters_round_trip);
    tcase_add_test(tc, even_and_uneven_plans_can_be_written_as_letters);
    tcase_add_loop_test(tc, chunks_are_checked_as_megatron_does, 0, LENGTH(checks));
    Suite *s = suite_create("sim/plan");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
