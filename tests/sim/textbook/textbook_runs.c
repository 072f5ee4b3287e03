#include "tests/sim/textbook/textbook_runs.h"

#include "tests/testing.h"

#include <math.h>
#include <string.h>

const struct model gpt3 = {
    .layers = 96, .hidden = 12288, .heads = 96, .vocab = 50257, .seq = 2048
};

// clang-format off
const struct textbook_run textbook_runs[NUM_TEXTBOOK_RUNS] = {
    { { .name = "22B", .layers = 48, .hidden = 6144, .heads = 64, .vocab = 51200 },
      8, 4, { 1, 1, 1, TEXTBOOK_1F1B }, 4, 8, 1.10, 41.65, 43.81,
      59.25, 9.5625, 45.5625, 66.8, 49.4, 16.1, 7.6 },
    { { .name = "175B", .layers = 96, .hidden = 12288, .heads = 96, .vocab = 51200 },
      8, 1, { 8, 3, 64, TEXTBOOK_1F1B }, 64, 64, 13.75, 51.39, 52.77,
      66.84375, 12.3515625, 45.5625, 62.0, 56.5, 18.5, 8.7 },
    { { .name = "530B", .layers = 105, .hidden = 20480, .heads = 128, .vocab = 51200 },
      8, 1, { 35, 3, 280, TEXTBOOK_1F1B }, 280, 280, 37.83, 56.05, 56.96,
      114.0234375, 23.076171875, 31.640625, 58.3, 61.9, 20.2, 9.5 },
    { { .name = "1T", .layers = 128, .hidden = 25600, .heads = 160, .vocab = 51200 },
      8, 1, { 64, 1, 512, TEXTBOOK_1F1B }, 512, 512, 71.49, 56.27, 57.01,
      131.25, 26.5625, 32.958984375, 58.3, 61.9, 20.2, 9.5 },
};
// clang-format on

const struct textbook_recipe *recipe_named(const char *name)
{
    for (int i = 0; i < num_textbook_recipes; i++)
        if (strcmp(textbook_recipes[i].name, name) == 0)
            return &textbook_recipes[i];
    ck_abort_msg("no recipe %s", name);
}

void check_within(double got, double want, double share)
{
    ck_assert_double_eq_tol(got, want, share * fabs(want));
}
