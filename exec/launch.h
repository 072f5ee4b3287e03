/* exec/launch.h - starts the ranks of one machine as processes.
 *
 * Each process runs this program, with the same or other arguments, and reads its rank from the
 * environment (exec/comm/place.h). Ranks are started before the launching process has threads or
 * uses libraries, and they end with it. */
#ifndef EXEC_LAUNCH_H
#define EXEC_LAUNCH_H

#include "base/err.h"

#include <stdbool.h>

enum {
    LAUNCH_EXIT_LOST = 75
}; /* EX_TEMPFAIL of sysexits.h, which Slurm treats as "start it again" */

struct launch_options {
    int num_ranks;
    char *const *arguments; /* the program's arguments, its name first, NULL last */
    const char *program;    /* path of the program; NULL: this program */
    double grace_s; /* time between asking the other ranks to end and killing them, after a rank
                       failed */
    /* Called when a rank was killed, before the other ranks are asked to end, because their later
     * messages are only consequences of this. err names the rank and the signal. NULL: not
     * called. */
    void (*hear)(void *context, const struct err *err);
    void *context;
};

/* Returns when all ranks have ended. Rank 0 writes to this process's output; the other ranks' lines
 * begin with "[rank N] ". Each rank gets its own cores when there are enough. *status is the exit
 * status: 0 when all ranks returned 0; else that of the first rank that failed by itself. It is
 * LAUNCH_EXIT_LOST when that rank was killed (err: ERR_SYSTEM, where = "rank N", the signal in msg)
 * and when every rank that failed had only lost its connection to another rank (err names a rank
 * that did not end when asked, if there is one). SIGINT and SIGTERM are passed on. Returns false
 * when the ranks could not be started or when one failed. */
bool launch(const struct launch_options *options, int *status, struct err *err);

#endif
