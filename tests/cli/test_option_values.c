/* Tests values that options reject. The error must name the option and come before any output. */
#include "cli/input/command.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_VALUES = 20, MOST_WORDS = 16 };

#define COUNTS "", "0", "-1", "NaN", "inf", "1.5", "8x", "0x8", "1e400", "99999999999999999999"
static const struct {
    const char *command, *option, *values[MOST_VALUES];
} refused[] = {
    { "search", "--gpus", { COUNTS } },
    { "search", "--seq", { COUNTS } },
    { "search", "--top", { COUNTS } },
    { "search", "--jobs", { COUNTS } },
    { "search",
      "--batch",
      { "", "0", "-1", "NaN", "1.5", "3 MB", "0 tok", "1e300 tok", "-5 Mtok",
        "99999999999999999999" } },
    { "search",
      "--tokens",
      { "", "0", "-1", "NaN", "300", "B", "-3B", "0B", "0 tok", "-1 Btok", "1e300 tok" } },
    { "search",
      "--max-memory",
      { "", "0", "60", "60 GB/s", "-1 GiB", "0 B", "NaN GiB", "1e300 GiB", "200 GiB" } },
    { "search", "--price", { "", ".", "2.5 $", "-2.5", "-1 $/h", "NaN $/h", "1e300 $/h" } },
    { "search", "--time-limit", { "", "0", "10", "0 s", "-1 s", "NaN s", "10 GiB", "1e300 s" } },
    { "search", "--deadline", { "", "0", "30", "0 d", "-1 d", "NaN d", "10 GiB", "1e300 d" } },
    { "search", "--budget", { "", "0", "-1", "1.5", "many", "1e30" } },
    { "search", "--seed", { "", "0", "-1", "1.5", "99999999999" } },
    { "search", "--robust", { "", "1", "-0.1", "NaN", "10 %" } },
    { "search", "--largest", { "", "nothing-like-it" } },
    { "search", "--objective", { "", "speed", "0" } },
    { "search", "--precision", { "", "int4", "16" } },
    { "search", "--optimizer", { "", "lion" } },
    { "search",
      "--train",
      { "", "lora", "lora:0", "lora:8:", "last:0", "last:1000", "q k", "QKV" } },
    { "search", "--reserve", { "", "0", "20", "-1 GiB", "20 GB/s", "1e300 GiB", "80 GiB" } },
    { "search", "--fix", { "", "tpx", "tp8 tp4" } },
    { "search", "--forbid", { "", "tpx" } },
    { "search", "--compare", { "", "tpx", "tp1 tp1" } },
    { "search", "--model", { "", "nothing-like-it" } },
    { "search", "--cluster", { "", "nothing-like-it" } },
    { "search", "--gpu", { "", "nothing-like-it" } },
    { "search", "--stack", { "", "nothing-like-it" } },
    { "search", "--method", { "", "nothing-like-it" } },
    { "design", "--days", { "", "0", "-1", "NaN", "1e6", "30d" } },
    { "design", "--cost", { "", "0", "-1", "NaN", "1e13", "5 $" } },
    { "design", "--flops", { "", "0", "-1", "NaN", "inf", "1e5", "1e37", "1e20x", "tinyy" } },
    { "design", "--inference", { "", "0", "2", "-1 Btok", "1e300 tok" } },
    { "design", "--law", { "", "kaplan", "1" } },
    { "design", "--aspect", { "", "128" } },
    { "simulate",
      "--layout",
      { "", "tp", "tpx", "tp0", "tp-1", "tp2 tp2", "tp1.5", "tp99999999999",
        "schedule=", "nonsense" } },
};

/* Checks that a command with otherwise valid options rejects the value; `value` and `more` may be
 * NULL. */
static void check_refused(const char *name, const char *option, const char *value, const char *more,
                          struct err *err)
{
    const char *words[MOST_WORDS] = { name, "--gpus", "2", "--model", "tiny", option };
    int count = 6;
    if (value)
        words[count++] = value;
    if (more)
        words[count++] = more;
    *err = (struct err){ 0 };
    const struct command *command = command_find(name);
    ck_assert_ptr_nonnull(command);
    int code = command->run(count, (char **)words, err);
    ck_assert_msg(code == EXIT_USAGE, "%s \"%s\": exit %d: %s: %s", option, value ? value : "",
                  code, err->where, err->msg);
    ck_assert_msg(err->code == ERR_USAGE && *err->msg && !strchr(err->msg, '\n'), "%s \"%s\": %s",
                  option, value ? value : "", err->msg);
}

START_TEST(bad_values_are_refused_by_option_name_without_output)
{
    const char *option = refused[_i].option;
    char path[] = "/tmp/test_option_values.XXXXXX";
    struct err err;
    close(mkstemp(path));
    FILE *output =
        freopen(path, "w",
                stdout); /* redirects only this test, as Check runs each test in a child process */
    ck_assert_ptr_nonnull(output);
    unlink(path);
    for (int i = 0; i < MOST_VALUES && refused[_i].values[i]; i++)
        check_refused(refused[_i].command, option, refused[_i].values[i], NULL, &err);
    check_refused(refused[_i].command, option, NULL, NULL, &err);
    ck_assert_str_eq(err.where, option);
    ck_assert_msg(strncmp(err.msg, "expected", 8) == 0, "%s: %s", option, err.msg);
    check_refused(refused[_i].command, option, "--json", NULL, &err);
    ck_assert_str_eq(err.where, option);
    ck_assert_ptr_nonnull(strstr(err.msg, "found the option --json"));
    ck_assert_int_eq(ftell(output), 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("values");
    tcase_add_loop_test(tc, bad_values_are_refused_by_option_name_without_output, 0,
                        LENGTH(refused));
    Suite *s = suite_create("values of options");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
