/* cli/ranks.h - a command that goes on as several processes. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "base/err.h"

/* This program again, once for each rank, with the same words; argv[0] is the command. Returns the
 * exit code when all have ended: of a rank that failed its own, without err, as it has said why. */
int ranks_launch(int num_ranks, int argc, char **argv, struct err *err);

#endif
