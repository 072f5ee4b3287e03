/* exec/run/session_part.h - the internals of a session: session.c opens a session, session_train.c
 * trains, session_trace.c measures times. No other file includes it. */
#ifndef EXEC_RUN_SESSION_PART_H
#define EXEC_RUN_SESSION_PART_H

#include "exec/run/checkpoint_folder.h"
#include "exec/run/session.h"

#include <stdatomic.h>

/* One rank's run. */
struct session {
    const struct session_options *options;
    struct rank_device on;
    char status_path[CHECKPOINT_PATH];
    atomic_bool is_open; /* device and communicator exist: the watchdog can stop them */
    atomic_bool is_over; /* whether the watchdog has stopped the run, so that no one waits for other
                            ranks */
    atomic_bool has_lost; /* whether another rank was lost */
    struct rank *rank;
    struct stream *stream; /* stream for calls between steps */
    struct arena *arena;
    struct session_result *out;
    struct divergence own; /* the first divergence that this rank found */
};

/* Runs an all-reduce or all-gather of numbers in host memory, by way of device memory. */
bool session_collect(struct session *session, struct comm_call call, struct err *err);
bool session_reduce(struct session *session, double *values, int count, enum reduction reduction,
                    struct err *err);

/* Runs rank_step, but does not treat divergence as a failure. The result is equal on all ranks that
 * sum their gradients. */
bool session_step(struct session *session, long step, struct interval *times,
                  struct step_result *out, struct err *err);

/* Runs all reported steps up to the first divergence. A resumed run begins after the checkpoint's
 * step. */
bool session_train(struct session *session, struct err *err);

/* Runs two further steps, one to time instructions and one to time ops. */
bool session_trace(struct session *session, struct err *err);

#endif
