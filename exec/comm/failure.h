/* exec/comm/failure.h - keeps the first of several concurrent failures.
 *
 * Any thread may call these functions at any time. They wait at most for a copy of an error and for
 * the listener. */
#ifndef EXEC_COMM_FAILURE_H
#define EXEC_COMM_FAILURE_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Called for every failure, in failure_keep, before any other thread can see the failure or stop
 * waiting. */
struct failure_listener {
    void (*hear)(void *context); /* NULL: no listener */
    void *context;
};

struct failure {
    pthread_mutex_t mutex; /* guards `err` */
    struct err err;
    atomic_bool is_kept;
    struct failure_listener listener;
};

void failure_init(struct failure *failure);
void failure_release(struct failure *failure);
/* Sets the listener. Call it before anything can fail. */
void failure_listen(struct failure *failure, const struct failure_listener *listener);

/* Keeps a failure unless an earlier one is kept. */
void failure_keep(struct failure *failure, const struct err *err);
bool failure_is_kept(const struct failure *failure);
/* Returns false and sets `err` to the first failure if there was one. */
bool failure_check(struct failure *failure, struct err *err);

#endif
