/* exec/failure.h - the first failure of those that fail together, kept for whoever asks.
 *
 * Any thread calls these at any time; none waits for more than the copy of an error. */
#ifndef EXEC_FAILURE_H
#define EXEC_FAILURE_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct failure {
    pthread_mutex_t mutex; /* of `err` */
    struct err err;
    atomic_bool is_kept;
};

void failure_init(struct failure *failure);
void failure_release(struct failure *failure);

/* Of several the first is kept. */
void failure_keep(struct failure *failure, const struct err *err);
bool failure_is_kept(const struct failure *failure);
/* False, with the first failure in `err`, once there is one. */
bool failure_check(struct failure *failure, struct err *err);

#endif
