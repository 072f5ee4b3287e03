/* Prints --help from the tables of commands and options. */
#include "cli/names/help.h"

#include "base/length.h"
#include "cli/input/options.h"
#include "cli/print/terminal.h"

#include <stdio.h>
#include <string.h>

enum { LEFT = 26, LEAST_WIDTH = 60, USUAL_WIDTH = 80, MOST_WIDTH = 110, MOST_IN_GROUP = 16 };

/* Option groups by purpose, in help's order; options without a group come last. */
// clang-format off
static const struct {
    const char *title;
    const char *names[MOST_IN_GROUP];
} groups[] = {
    { "Model and system", { "--gpus", "--nodes", "--model", "--cluster", "--gpu", "--stack", "--batch",
                         "--seq", "--tokens", "--precision", "--optimizer", "--train", "--reference", "--reserve",
                         "--price" } },
    { "Which plans", { "--layout", "--compare", "--partition", "--from-run", "--fix", "--forbid",
                       "--max-memory", "--space", "--uneven", "--recompute-mixes",
                       "--recompute-modules", "--placement" } },
    { "How to search", { "--objective", "--method", "--top", "--time-limit", "--jobs", "--budget",
                         "--seed", "--stage-types", "--same-recompute", "--host-memory" } },
    { "Beyond one plan", { "--pareto", "--deadline", "--largest", "--robust" } },
    { "Budgets", { "--days", "--cost", "--flops", "--inference", "--law", "--aspect" } },
    { "Measured runs", { "--source", "--why", "--tolerance", "--predictions", "--report" } },
    { "Measuring", { "--for", "--quick", "--refine", "--convergence", "--least", "--heterogeneity",
                     "--nccl-tests", "--osu" } },
    { "Running a plan", { "--run", "--steps", "--ranks", "--slice", "--backend", "--comm",
                          "--graphs", "--watchdog" } },
    { "Training", { "--data", "--rate", "--lr-warmup", "--lr-decay", "--min-lr", "--clip", "--spike",
                    "--hostile", "--checkpoint", "--checkpoint-every", "--resume" } },
    { "Fits", { "--check", "--table" } },
    { "Output", { "--output", "--certificate", "--json", "--gantt", "--trace", "--schedule-text", "--draws",
                  "--quiet", "--verbose" } },
};
// clang-format on
enum { NUM_GROUPS = LENGTH(groups) };

static int width(void)
{
    int columns = terminal_columns();
    if (columns == 0)
        return USUAL_WIDTH;
    return columns < LEAST_WIDTH ? LEAST_WIDTH : columns > MOST_WIDTH ? MOST_WIDTH : columns;
}

/* Prints " LEFT text". If LEFT is too long for its column, the text starts on the next line. */
static void print_entry(const char *left, const char *text)
{
    printf("  %-*s", LEFT - 2, left);
    if ((int)strlen(left) > LEFT - 3)
        printf("\n%*s", LEFT, "");
    terminal_print_words(text, LEFT, LEFT, width());
}

static void print_row(const struct option_row *row, unsigned command)
{
    struct text doc = { 0 };
    char left[64];
    options_left_column(row, left, sizeof left);
    options_add_doc(row, command, &doc);
    print_entry(left, text_get(&doc));
    text_release(&doc);
}

/* The option's group; NUM_GROUPS: none. */
static int group_of(const struct option_row *row)
{
    for (int i = 0; i < NUM_GROUPS; i++)
        for (int j = 0; j < MOST_IN_GROUP && groups[i].names[j]; j++)
            if (strcmp(groups[i].names[j], row->name) == 0)
                return i;
    return NUM_GROUPS;
}

static void print_group(int group, unsigned command)
{
    bool has_title = false;
    for (int i = 0; i < num_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->commands & command) || group_of(row) != group)
            continue;
        if (!has_title)
            printf("\n%s\n", group < NUM_GROUPS ? groups[group].title : "More");
        has_title = true;
        print_row(row, command);
    }
}

void help_print_all(void)
{
    printf("simsearch %s: how to split a model over GPUs, how long a step takes, will it fit\n\n",
           SIMSEARCH_VERSION);
    printf("  simsearch --gpus 1024 --model 175b\n");
    printf("  simsearch simulate --model 175b --gpus 1024 --layout \"tp8 pp16 mb1 sp zero1\"\n\n");
    printf("Commands\n");
    for (int i = 0; i < num_commands; i++) {
        printf("  %-10s ", commands[i].name);
        terminal_print_words(commands[i].summary, 13, 13, width());
    }
    printf("\n");
    terminal_print_words(
        "simsearch COMMAND --help shows the options of each command, `man simsearch` shows all. "
        "The default command is search.",
        0, 0, width());
}

static void print_exit_codes(void)
{
    printf("\nExit codes\n");
    for (int i = 0; i < num_exit_meanings; i++) {
        printf("  %3d  ", exit_meanings[i].code);
        terminal_print_words(exit_meanings[i].meaning, 7, 7, width());
    }
}

void help_print(const struct command *command)
{
    printf("simsearch %s: %s\n\n%s", command->name, command->summary, command->examples);
    if (*command->details) {
        printf("\n");
        terminal_print_words(command->details, 0, 0, width());
    }
    printf("\nOptions\n");
    for (int group = 0; group <= NUM_GROUPS; group++)
        print_group(group, command->bit);
    print_entry("--help, -h", "Shows this.");
    if (command == &commands[0])
        print_exit_codes();
}
