#include "cli/ranks.h"

#include "base/arena.h"
#include "cli/command.h"
#include "exec/launch.h"

#include <stdlib.h>
#include <string.h>

int ranks_launch(int num_ranks, int argc, char **argv, struct err *err)
{
    char **arguments = arena_grow(NULL, sizeof *arguments * ((size_t)argc + 2));
    char name[] = "simsearch";
    arguments[0] = name;
    memcpy(arguments + 1, argv, sizeof *argv * (size_t)argc);
    arguments[argc + 1] = NULL;
    struct launch_options launch_options = { .num_ranks = num_ranks,
                                             .arguments = arguments,
                                             .grace_s = 2 };
    int status = EXIT_FAILED;
    launch(&launch_options, &status, err);
    free(arguments);
    if (err->code == ERR_NONE)
        return status;
    if (status == LAUNCH_EXIT_LOST) /* main prints the error, and the code stays */
        return status;
    err->code = ERR_NONE; /* the rank that failed has said why */
    return status;
}
