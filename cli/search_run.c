/* "search --run": runs the best plan that was found. */
#define _GNU_SOURCE // mkdtemp; NOLINT(bugprone-reserved-identifier)
#include "cli/search_run.h"

#include "base/text.h"
#include "cli/input/command.h"
#include "cli/views/answer.h"
#include "exec/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_WORDS = 40, MOST_NUMBERS = 8, WORD_BYTES = 32 };

/* A command line under construction. */
struct words {
    char *at[MOST_WORDS];
    int count;
    char numbers[MOST_NUMBERS][WORD_BYTES];
    int num_numbers;
    char watchdog[WORD_BYTES];
};

static void add(struct words *words, const char *option, const char *value)
{
    if (!value)
        return;
    words->at[words->count++] = (char *)option;
    words->at[words->count++] = (char *)value;
}

static void add_given(struct words *words, const char *option, double value)
{
    char *number = words->numbers[words->num_numbers];
    if (value < 0)
        return;
    snprintf(number, WORD_BYTES, "%.9g", value);
    words->num_numbers++;
    add(words, option, number);
}

/* Adds an option unless its value is 0 (not given). */
static void add_number(struct words *words, const char *option, double value)
{
    add_given(words, option, value > 0 ? value : -1);
}

static void add_options(struct words *words, const struct options *options)
{
    add_number(words, "--steps", options->training.steps);
    add_number(words, "--rate", options->training.rate);
    add_given(words, "--lr-warmup", options->training.lr_warmup);
    add_given(words, "--lr-decay", options->training.lr_decay);
    add_given(words, "--min-lr", options->training.least_rate);
    add_given(words, "--clip", options->training.clip);
    add_given(words, "--spike", options->training.spike);
    add_number(words, "--seed", options->seed);
    add(words, "--data", options->training.data);
    add(words, "--backend", options->training.backend);
    add(words, "--comm", options->training.comm);
    add(words, "--graphs",
        options->training.graphs == GRAPHS_AUTO ? NULL : graphs_names[options->training.graphs]);
    if (options->training.watchdog_s > 0) {
        snprintf(words->watchdog, WORD_BYTES, "%.9g s", options->training.watchdog_s);
        add(words, "--watchdog", words->watchdog);
    }
    if (options->json)
        words->at[words->count++] = (char *)"--json";
    if (options->quiet)
        words->at[words->count++] = (char *)"--quiet";
}

static int run_file(const struct options *options, const char *path, struct err *err)
{
    struct words words = { .at = { (char *)"run", (char *)path }, .count = 2 };
    add_options(&words, options);
    fflush(stdout);
    return cmd_run(words.count, words.at, err);
}

int search_run_best(const struct options *options, const struct setup *setup,
                    const struct search_result *result, struct err *err)
{
    if (options->output)
        return run_file(options, options->output, err);
    char folder[] = "/tmp/simsearch-XXXXXX";
    struct text path = { 0 };
    if (!mkdtemp(folder)) {
        err_set(err, ERR_SYSTEM, folder, "this temporary folder cannot be made");
        return exit_code_of(err);
    }
    text_add(&path, "%s/plan.json", folder);
    int code = EXIT_FAILED;
    if (write_plan(text_get(&path), setup, &result->top[0].plan, &result->top[0].prediction, err))
        code = run_file(options, text_get(&path), err);
    unlink(text_get(&path));
    rmdir(folder);
    text_release(&path);
    return err->code != ERR_NONE && code != LAUNCH_EXIT_LOST ? exit_code_of(err) : code;
}
