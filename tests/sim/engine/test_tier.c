#include "sim/engine/tier.h"

#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

/* The sentences with which an answer describes a GPU with or without measured runs, and a stack
 * (training software) with or without fitted runs. */
static const struct {
    const char *model;
    bool is_measured;
    int num_fitted;
    enum tier tier;
    const char *sentence;
} cases[] = {
    { "gpt3-1.3b", true, 5, TIER_SEEN, "runs of this stack and of this GPU have been measured" },
    { "gpt3-1.3b", true, 0, TIER_NEW_STACK,
      "no run of STACK has been measured: its constants come from other stacks" },
    { "mixtral-8x7b", true, 5, TIER_NEW_STACK,
      "constants of STACK were fitted only on runs of models without experts" },
    { "mixtral-8x7b", true, 0, TIER_NEW_STACK,
      "no run of STACK has been measured: its constants come from other stacks" },
    { "nemotron-h-8b", true, 5, TIER_NEW_STACK,
      "constants of STACK were fitted only on runs of models without linear mixers" },
    { "gpt3-1.3b", false, 5, TIER_NEW_GPU,
      "no run on CHIP has been measured: its constants come from datasheets or other GPUs" },
};

START_TEST(a_sentence_says_what_was_measured)
{
    struct system system = { .profile = { .name = "CHIP", .measured = cases[_i].is_measured },
                             .stack = { .name = "STACK", .num_fitted = cases[_i].num_fitted } };
    struct model model = model_of(cases[_i].model);
    char text[200];
    ck_assert_int_eq(system_tier(&system, &model), cases[_i].tier);
    tier_sentence(&system, &model, text, sizeof text);
    ck_assert_str_eq(text, cases[_i].sentence);
}
END_TEST

/* After a calibration on this machine the stack has no error between sources of measurements, so
 * the machine counts as measured. */
START_TEST(a_calibrated_machine_has_been_seen)
{
    struct system system;
    struct err err = { 0 };
    struct model model = model_of("gpt3-1.3b");
    ck_assert(system_load("dgx-h100", "host", 1, &system, &err));
    system.profile.measured = true;
    system.stack.num_fitted = 0;
    system.stack.errors.source = 0;
    ck_assert_int_eq(system_tier(&system, &model), TIER_SEEN);
    system.stack.errors.source = 0.1;
    ck_assert_int_eq(system_tier(&system, &model), TIER_NEW_STACK);
    system_release(&system);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("tier");
    tcase_add_loop_test(tc, a_sentence_says_what_was_measured, 0, LENGTH(cases));
    tcase_add_test(tc, a_calibrated_machine_has_been_seen);
    Suite *s = suite_create("sim/engine/tier");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
