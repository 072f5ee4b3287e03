/* Starts this program once per rank and waits for all ranks. */
#include "cli/ranks.h"

#include "base/arena.h"
#include "cli/input/command.h"
#include "exec/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the cause of a failure before the failures that it causes. */
static void tell_cause(void *context, const struct err *err)
{
    bool *is_told = context;
    fprintf(stderr, "simsearch: %s: %s\n", err->where, err->msg);
    *is_told = true;
}

int ranks_launch(int num_ranks, int argc, char **argv, struct err *err)
{
    char **arguments = arena_grow(NULL, sizeof *arguments * ((size_t)argc + 2));
    char name[] = "simsearch";
    arguments[0] = name;
    memcpy(arguments + 1, argv, sizeof *argv * (size_t)argc);
    arguments[argc + 1] = NULL;
    bool is_told = false;
    struct launch_options launch_options = { .num_ranks = num_ranks,
                                             .arguments = arguments,
                                             .grace_s = 2,
                                             .hear = tell_cause,
                                             .context = &is_told };
    int status = EXIT_FAILED;
    launch(&launch_options, &status, err);
    free(arguments);
    if (err->code == ERR_NONE)
        return status;
    if (status == LAUNCH_EXIT_LOST && !is_told) /* main prints the error and returns the code */
        return status;
    err->code = ERR_NONE; /* already reported by the failed rank or by tell_cause */
    return status;
}
