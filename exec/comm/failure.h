/* exec/comm/failure.h - keeps the first of several concurrent failures.
 *
 * Any thread may call these at any time; none waits for more than the copy of an error and the
 * listener. */
#ifndef EXEC_COMM_FAILURE_H
#define EXEC_COMM_FAILURE_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Called for every failure, on the thread that keeps it, before any other thread can see the
 * failure or stop waiting. */
struct failure_listener {
    void (*hear)(void *context); /* NULL: nobody */
    void *context;
};

struct failure {
    pthread_mutex_t mutex; /* of `err` */
    struct err err;
    atomic_bool is_kept;
    struct failure_listener listener;
};

void failure_init(struct failure *failure);
void failure_release(struct failure *failure);
/* Call it before anything can fail. */
void failure_listen(struct failure *failure, const struct failure_listener *listener);

/* Keeps a failure unless an earlier one is kept. */
void failure_keep(struct failure *failure, const struct err *err);
bool failure_is_kept(const struct failure *failure);
/* False, with the first failure in `err`, once there is one. */
bool failure_check(struct failure *failure, struct err *err);

#endif
