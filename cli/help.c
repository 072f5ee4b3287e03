#include "cli/help.h"

#include "cli/options.h"

#include <stdio.h>

void help_print_all(void)
{
    printf("simsearch %s: how to split a model over GPUs, how long a step takes, will it fit\n\n",
           SIMSEARCH_VERSION);
    printf("  simsearch --gpus 1024 --model 175b\n");
    printf("  simsearch simulate --model 175b --gpus 1024 --layout \"tp8 pp16 mb1 sp zero1\"\n\n");
    printf("Commands\n");
    for (int i = 0; i < num_commands; i++)
        printf("  %-10s %s%s\n", commands[i].name, commands[i].summary,
               i == 0 ? " (the default)" : "");
    printf("\nsimsearch COMMAND --help tells the options of each; `man simsearch` tells all.\n");
}

static void print_exit_codes(void)
{
    printf("\nExit codes\n");
    for (int i = 0; i < num_exit_meanings; i++)
        printf("  %3d  %s\n", exit_meanings[i].code, exit_meanings[i].meaning);
}

void help_print(const struct command *command)
{
    printf("simsearch %s: %s\n\n%s", command->name, command->summary, command->examples);
    if (*command->details)
        printf("\n%s", command->details);
    printf("\nOptions\n");
    options_print_help(command->bit, stdout);
    if (command == &commands[0])
        print_exit_codes();
}
