/* exec/run/session_part.h - the insides of a session: what session.c opens, session_train.c trains
 * with and session_trace.c times. Nothing else includes it. */
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
    atomic_bool is_open;  /* device and communicator are there for the watchdog to stop */
    atomic_bool is_over;  /* the watchdog stops the run: nobody waits for other ranks any more */
    atomic_bool has_lost; /* another rank */
    struct rank *rank;
    struct stream *stream; /* of calls between steps */
    struct arena *arena;
    struct session_result *out;
    struct divergence own; /* the first that this rank found */
};

/* An all-reduce or all-gather of numbers in the host's memory, by way of the device's. */
bool session_collect(struct session *session, struct comm_call call, struct err *err);
bool session_reduce(struct session *session, double *values, int count, enum reduction reduction,
                    struct err *err);

/* rank_step, but divergence is no failure. The same on all ranks where they sum their gradients. */
bool session_step(struct session *session, long step, struct interval *times,
                  struct step_result *out, struct err *err);

/* All steps that count, from a checkpoint's where the run resumes, to the first divergence. */
bool session_train(struct session *session, struct err *err);

/* Two steps after those: one for the times of instructions, one for those of ops. */
bool session_trace(struct session *session, struct err *err);

#endif
