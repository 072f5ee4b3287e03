/* exec/launch.h - the ranks of one machine as processes of their own.
 *
 * Each is this program again, with the same arguments or others, told its place by the environment
 * (exec/place.h). They are started before anything else in the process has threads or libraries at
 * work, and end with the process that started them. */
#ifndef EXEC_LAUNCH_H
#define EXEC_LAUNCH_H

#include "base/err.h"

#include <stdbool.h>

enum { LAUNCH_EXIT_LOST = 75 }; /* sysexits' EX_TEMPFAIL, which Slurm takes for "start it again" */

struct launch_options {
    int num_ranks;
    char *const *arguments; /* of the program, its name first, NULL last */
    const char *program;    /* path; NULL: this one */
    double grace_s;         /* between the request to end and the kill, once a rank has failed */
    /* Hears which rank was killed and how, before the others are asked to end: they say so, and it
     * is only what follows. NULL: nobody. */
    void (*hear)(void *context, const struct err *err);
    void *context;
};

/* Returns when all ranks have ended. Rank 0 has this process' output; lines of the others begin
 * with "[rank N] ". Each runs on cores of its own when there are enough. *status is what to exit
 * with: 0 when all ranks returned 0; what the first that failed returned, those that only lost
 * another (LAUNCH_EXIT_LOST) aside; LAUNCH_EXIT_LOST when it was killed, with ERR_SYSTEM, where =
 * "rank N" and the signal in msg. Where ranks only lost another, err names one that would not end.
 * SIGINT and SIGTERM are passed on. False when the ranks could not be started or one failed. */
bool launch(const struct launch_options *options, int *status, struct err *err);

#endif
