/* cli/ranks.h - a command that goes on as several processes. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "base/err.h"

/* Starts this program once for each rank, with the same words; argv[0] is the command. Returns the
 * exit code when all have ended: that of a failed rank, without err, as the rank has printed why.
 */
int ranks_launch(int num_ranks, int argc, char **argv, struct err *err);

#endif
