#include "exec/comm/failure.h"

void failure_init(struct failure *failure)
{
    *failure = (struct failure){ 0 };
    pthread_mutex_init(&failure->mutex, NULL);
}

void failure_release(struct failure *failure)
{
    pthread_mutex_destroy(&failure->mutex);
}

void failure_listen(struct failure *failure, const struct failure_listener *listener)
{
    failure->listener = *listener;
}

void failure_keep(struct failure *failure, const struct err *err)
{
    const struct failure_listener *listener = &failure->listener;
    if (listener->hear)
        listener->hear(listener->context);
    pthread_mutex_lock(&failure->mutex);
    err_pass(&failure->err, err);
    pthread_mutex_unlock(&failure->mutex);
    atomic_store(&failure->is_kept, true);
}

bool failure_is_kept(const struct failure *failure)
{
    return atomic_load(&failure->is_kept);
}

bool failure_check(struct failure *failure, struct err *err)
{
    if (!failure_is_kept(failure))
        return true;
    pthread_mutex_lock(&failure->mutex);
    struct err first = failure->err;
    pthread_mutex_unlock(&failure->mutex);
    return err_pass(err, &first);
}
