/* cli/ranks.h - runs a command in several processes. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "base/err.h"

/* Starts this program once per rank with the same arguments; argv[0] is the command. Returns the
 * exit code when all have ended. When a rank failed, returns its code without err, as the rank has
 * already printed the cause. */
int ranks_launch(int num_ranks, int argc, char **argv, struct err *err);

#endif
