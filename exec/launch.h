/* exec/launch.h - starts the ranks of one machine as processes.
 *
 * Each process runs this program, with the same or other arguments, and learns its place from the
 * environment (exec/comm/place.h). They are started before the launching process has threads or
 * uses libraries, and end with it. */
#ifndef EXEC_LAUNCH_H
#define EXEC_LAUNCH_H

#include "base/err.h"

#include <stdbool.h>

enum { LAUNCH_EXIT_LOST = 75 }; /* sysexits' EX_TEMPFAIL, which Slurm takes for "start it again" */

struct launch_options {
    int num_ranks;
    char *const *arguments; /* the program's arguments, its name first, NULL last */
    const char *program;    /* path; NULL: this one */
    double
        grace_s; /* after a rank has failed: time from asking the others to end to killing them */
    /* Called with the rank that was killed and how, before the others are asked to end, whose
     * messages are only consequences. NULL: not called. */
    void (*hear)(void *context, const struct err *err);
    void *context;
};

/* Returns when all ranks have ended. Rank 0 writes to this process's output; the other ranks' lines
 * begin with "[rank N] ". Each rank gets its own cores when there are enough. *status is the exit
 * status: 0 when all ranks returned 0; else that of the first rank that failed, not counting ranks
 * that only lost another (LAUNCH_EXIT_LOST); LAUNCH_EXIT_LOST when that rank was killed, with
 * ERR_SYSTEM, where = "rank N" and the signal in msg. When ranks only lost another, err names one
 * that did not end. SIGINT and SIGTERM are passed on. False when the ranks could not be started or
 * one failed. */
bool launch(const struct launch_options *options, int *status, struct err *err);

#endif
