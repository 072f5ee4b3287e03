/* Operations that all ranks of a run do together between steps: sums of a few numbers, and signals
 * while ranks do unequal work. */
#include "exec/run/between_steps.h"

#include "base/clock.h"
#include "exec/run/lane_status.h"
#include "exec/run/rank_state.h"

struct group *rank_world(struct rank *rank)
{
    return rank_group(rank, GROUP_WORLD);
}

/* The most numbers that are reduced in one call: one kilobyte. Over TCP so few numbers are summed
 * in rank order (exec/comm/comm.h), so a sum does not depend on how many numbers are reduced
 * together. */
enum { TOLD_AT_ONCE = 128 };

static bool reduce(struct rank *rank, double *values, size_t count, enum reduction reduction,
                   struct err *err)
{
    const struct rank_device *on = &rank->on;
    struct stream *stream = rank->streams[LANE_DATA];
    size_t bytes = sizeof *values * count;
    double *at = on->api->alloc(on->device, stream, bytes, err);
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = rank_world(rank),
                              .stream = stream,
                              .in = at,
                              .out = at,
                              .count = count,
                              .element = ELEMENT_FP64,
                              .reduction = reduction };
    if (!at)
        return false;
    on->api->copy(stream, at, values, bytes);
    on->comm_api->issue(&call);
    on->api->copy(stream, values, at, bytes);
    bool ok = on->api->stream_sync(stream, err) && on->comm_api->poll(on->comm, err);
    if (ok)
        on->api->free(on->device, NULL, at);
    return ok;
}

static bool reduce_all(struct rank *rank, double *values, int count, enum reduction reduction,
                       struct err *err)
{
    bool ok = true;
    for (int i = 0; rank_world(rank) && i < count && ok; i += TOLD_AT_ONCE) {
        int left = count - i;
        ok = reduce(rank, values + i, (size_t)(left < TOLD_AT_ONCE ? left : TOLD_AT_ONCE),
                    reduction, err);
    }
    return ok;
}

bool rank_most(struct rank *rank, double *values, int count, struct err *err)
{
    return reduce_all(rank, values, count, REDUCTION_MAX, err);
}

bool rank_mean_losses(struct rank *rank, double *losses, int count, struct err *err)
{
    const struct model *model = rank->setup.model;
    lane_status_wait(rank->on.watchdog, "for the sum of losses");
    if (!reduce_all(rank, losses, count, REDUCTION_SUM, err))
        return false;
    lane_status_wait(rank->on.watchdog, NULL);
    for (int i = 0; i < count; i++)
        losses[i] /= model->batch * model->seq;
    return true;
}

bool rank_agrees(struct rank *rank, bool ok, struct err *err)
{
    double failed = !ok;
    if (!rank_most(rank, &failed, 1, err))
        return false;
    return failed == 0 || err_set(err, ERR_SYSTEM, "", "another rank failed");
}

/* --- unequal work --------------------------------------------------------------------------- */

/* Period of the signals between ranks: rare enough to cost nothing, frequent enough for the
 * shortest watchdog limit. */
static const double signal_period_s = 0.1;

bool rank_is_due(const struct rank *rank)
{
    return clock_now_s() > rank->signalled_s + signal_period_s;
}

/* One round over all ranks, in which each reports whether it is still working. */
static bool signal_round(struct rank *rank, double *is_busy, const char *what, struct err *err)
{
    lane_status_wait(rank->on.watchdog, what);
    bool ok = rank_most(rank, is_busy, 1, err);
    rank->signalled_s = clock_now_s();
    return ok;
}

bool rank_goes_on(struct rank *rank, const char *what, struct err *err)
{
    double is_busy = 1;
    return !rank_is_due(rank) || signal_round(rank, &is_busy, what, err);
}

bool rank_is_done(struct rank *rank, const char *what, struct err *err)
{
    for (double is_busy = 1; is_busy > 0;) {
        is_busy = 0;
        if (!signal_round(rank, &is_busy, what, err))
            return false;
    }
    return true;
}
