/* Runs search with every option of the option table alone and with pairs of options. No run may end
 * by a signal; each must have a correct exit code and a plausible answer. */
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "search/search.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SETTINGS = 400, MOST_VALUES = 24 };

/* --- values ----------------------------------------------------------------------------------- */

/* Values for options that take free text, by the name of the argument in --help. An argument with a
 * new name needs a row here. */
static const struct {
    const char *argument, *values[5];
} texts[] = {
    { "MODEL", { "gpt3-1.3b", "mistral-7b" } },
    { "CLUSTER", { "dgx-a100-80g", "p3-v100-16g" } },
    { "GPU", { "a100-40g-sxm" } },
    { "STACK", { "torchtitan" } },
    { "B", { "32", "131072tok" } },
    { "WHAT", { "lora:8", "last:2" } },
    { "LAYOUT", { "tp2 pp2 mb1", "dp8 mb1 zero3" } },
    { "WORDS", { "tp2", "pp4 exchange=local:4", "sp" } },
    { "METHOD", { "exhaustive", "dp", "milp", "zo" } },
    { "FAMILY", { "gpt3", "layers" } },
    { "FILE", { "/dev/null" } },
    { "FILE|mean=M,cv=C", { "mean=1k,cv=1", "mean=64" } },
    { "balanced|random|cv=C|factor=F|in-turn", { "random", "cv=0.3", "in-turn" } },
    { "TEXT", { "workshop" } },
    { "NAME", { "host", "tcp" } },
    { "X|region", { "0.05", "region" } },
};

static const char *const quantities[][3] = {
    [QUANTITY_BYTES] = { "6GiB", "64GiB" },
    [QUANTITY_SECONDS] = { "1ms", "300d" },
    [QUANTITY_DOLLARS_PER_HOUR] = { "0$/h", "2.5$/h" },
    [QUANTITY_TOKENS] = { "1tok", "1Btok" },
};

/* The value of an option; "" for an option without a value. */
struct setting {
    const struct option_row *row;
    char value[32];
};

struct settings {
    struct setting at[MOST_SETTINGS];
    int count;
};

static void add(struct settings *settings, const struct option_row *row, const char *value)
{
    ck_assert_int_lt(settings->count, MOST_SETTINGS);
    struct setting *setting = &settings->at[settings->count++];
    setting->row = row;
    snprintf(setting->value, sizeof setting->value, "%s", value);
}

static void add_list(struct settings *settings, const struct option_row *row,
                     const char *const *values)
{
    ck_assert_msg(values && *values, "%s: this test has no values for %s", row->name,
                  row->argument);
    for (; *values; values++)
        add(settings, row, *values);
}

static const char *const *texts_of(const char *argument)
{
    for (int i = 0; i < LENGTH(texts); i++)
        if (strcmp(texts[i].argument, argument) == 0)
            return texts[i].values;
    return NULL;
}

static void add_numbers(struct settings *settings, const struct option_row *row, double least,
                        double most)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", most);
    add(settings, row, text);
    snprintf(text, sizeof text, "%.6g", least);
    add(settings, row, text);
}

static void add_values(struct settings *settings, const struct option_row *row)
{
    const struct field *field = &row->field;
    switch (field->kind) {
    case FIELD_BOOL:
        add(settings, row, "");
        break;
    case FIELD_NAME:
        add_list(settings, row, field->names);
        break;
    case FIELD_QUANTITY:
        add_list(settings, row, quantities[field->quantity]);
        break;
    case FIELD_INT:
    case FIELD_COUNT:
        add_numbers(settings, row, field->min, field->max < 4 ? field->max : 4);
        break;
    case FIELD_NUMBER:
        add_numbers(settings, row, field->min, field->max < 0.1 ? field->max : 0.1);
        break;
    case FIELD_OTHER:
        add_list(settings, row, texts_of(row->argument));
        break;
    case FIELD_TEXT:
    case FIELD_SET:
        ck_abort_msg("%s: unknown kind of option", row->name);
    }
}

/* All options of search except --run and --json. Each is tried with and without --json. */
static struct settings *all_settings(void)
{
    struct settings *settings = calloc(1, sizeof *settings);
    ck_assert_ptr_nonnull(settings);
    for (int i = 0; i < num_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->commands & COMMAND_SEARCH) && strcmp(row->name, "--run") != 0 &&
            strcmp(row->name, "--json") != 0)
            add_values(settings, row);
    }
    return settings;
}

/* --- the program ------------------------------------------------------------------------------ */

struct run {
    char command[600];
    char *output;
    int code;
};

static bool gives(const struct setting *setting, const char *name)
{
    return setting && strcmp(setting->row->name, name) == 0;
}

static void add_setting(char *command, size_t size, const struct setting *setting)
{
    size_t length = strlen(command);
    if (setting)
        snprintf(command + length, size - length, *setting->value ? " %s='%s'" : " %s%s",
                 setting->row->name, setting->value);
}

static struct run run(const struct setting *a, const struct setting *b, bool as_json)
{
    enum { MOST_BYTES = 1 << 22 };
    struct run run = { .output = calloc(1, MOST_BYTES) };
    ck_assert_ptr_nonnull(run.output);
    const char *gpus = gives(a, "--gpus") || gives(b, "--gpus") ? "" : " --gpus 8";
    const char *model = gives(a, "--model") || gives(b, "--model") ? "" : " --model gpt3-125m";
    snprintf(run.command, sizeof run.command, "\"$SIMSEARCH\" search%s%s%s", gpus, model,
             as_json ? " --json" : "");
    add_setting(run.command, sizeof run.command, a);
    add_setting(run.command, sizeof run.command, b);
    strcat(run.command, " 2>&1");
    if (as_json)
        strcpy(strstr(run.command, " 2>&1"), " 2>/dev/null");
    FILE *pipe = popen(run.command, "r"); // NOLINT(cert-env33-c): quoted above
    ck_assert_ptr_nonnull(pipe);
    size_t length = fread(run.output, 1, MOST_BYTES - 1, pipe);
    ck_assert_msg(length < MOST_BYTES - 1, "%s prints too much", run.command);
    int status = pclose(pipe);
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return run;
}

/* --- conditions ------------------------------------------------------------------------------- */

/* Checks numbers of predictions anywhere in a document; returns how many there are. */
static int check_numbers(const json_t *value, const char *command)
{
    const json_t *item;
    const char *key;
    size_t i;
    int count = 0;
    json_array_foreach (value, i, item)
        count += check_numbers(item, command);
    json_object_foreach ((json_t *)value, key, item)
        count += check_numbers(item, command);
    const json_t *step = json_object_get(value, "step_s"), *mfu = json_object_get(value, "mfu");
    if (!step || !mfu)
        return count;
    ck_assert_msg(json_number_value(step) > 0, "%s: step %g s", command, json_number_value(step));
    ck_assert_msg(json_number_value(mfu) >= 0 && json_number_value(mfu) <= 1, "%s: MFU %g", command,
                  json_number_value(mfu));
    const json_t *time = json_object_get(value, "time");
    json_object_foreach ((json_t *)time, key, item)
        ck_assert_msg(json_number_value(item) >= 0, "%s: %s is %g", command, key,
                      json_number_value(item));
    return count + 1;
}

static void check_json(const struct run *run)
{
    json_error_t error;
    json_t *root = json_loads(run->output, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root, "%s: %s: %.200s", run->command, error.text, run->output);
    int count = check_numbers(root, run->command);
    ck_assert_msg(run->code != EXIT_DONE || count > 0, "%s: no prediction", run->command);
    json_decref(root);
}

static void check_text(const struct run *run)
{
    static const char *const wrong[] = { " nan", "-nan", " inf", " -0.0 ", "(null)" };
    ck_assert_msg(*run->output, "%s prints nothing", run->command);
    for (int i = 0; i < LENGTH(wrong); i++)
        ck_assert_msg(!strstr(run->output, wrong[i]), "%s prints \"%s\":\n%s", run->command,
                      wrong[i], run->output);
}

static void check(const struct setting *a, const struct setting *b, bool as_json)
{
    static const int codes[] = { EXIT_DONE,  EXIT_USAGE,   EXIT_NO_PLAN,
                                 EXIT_INPUT, EXIT_MISSING, EXIT_TIME_LIMIT };
    struct run of = run(a, b, as_json);
    bool is_known = false;
    for (int i = 0; i < LENGTH(codes); i++)
        is_known |= of.code == codes[i];
    ck_assert_msg(is_known, "%s: exit %d: %s", of.command, of.code, of.output);
    bool has_answer = of.code == EXIT_DONE || of.code == EXIT_NO_PLAN || of.code == EXIT_TIME_LIMIT;
    if (as_json && has_answer)
        check_json(&of);
    else if (!as_json)
        check_text(&of);
    free(of.output);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* `make test` tries one value per option, with output as JSON or as text. */
START_TEST(each_option_alone_gives_a_plausible_answer)
{
    struct settings *all = all_settings();
    for (int i = 0; i < all->count; i++) {
        if (!is_campaign() && i > 0 && all->at[i].row == all->at[i - 1].row)
            continue;
        if (!is_spared(2 * i, 2))
            check(&all->at[i], NULL, true);
        if (!is_spared(2 * i + 1, 2))
            check(&all->at[i], NULL, false);
    }
    free(all);
}
END_TEST

START_TEST(pairs_of_options_give_plausible_answers)
{
    struct settings *all = all_settings();
    struct random rng = random_new(1, 0);
    for (int i = 0; i < TURNS(24) && !is_campaign(); i++) {
        const struct setting *a = &all->at[within(&rng, 0, all->count - 1)];
        const struct setting *b = &all->at[within(&rng, 0, all->count - 1)];
        if (a->row != b->row)
            check(a, b, i % 4 != 0);
    }
    for (int i = 0; i < all->count && is_campaign(); i++)
        for (int j = 0; j < i; j++)
            if (all->at[i].row != all->at[j].row) {
                check(&all->at[i], &all->at[j], true);
                check(&all->at[i], &all->at[j], false);
            }
    free(all);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("options");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, each_option_alone_gives_a_plausible_answer);
    tcase_add_test(tc, pairs_of_options_give_plausible_answers);
    Suite *s = suite_create("options of search");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
