/* A session is one rank's part of a run, from opening its device to returning its measurements. */
#include "exec/run/session_part.h"

#include "base/length.h"
#include "exec/run/lane_status.h"

#include <math.h>
#include <stdio.h>

static const double grace_s = 1; /* time that a rank has to end after the watchdog's request */

/* --- messages between ranks --------------------------------------------------------------- */

bool session_collect(struct session *session, struct comm_call call, struct err *err)
{
    const struct rank_device *on = &session->on;
    size_t in_bytes = call.count * element_bytes(call.element);
    size_t out_bytes =
        in_bytes * (size_t)(call.kind == COMM_ALL_GATHER ? session->options->place->size : 1);
    const void *from = call.in;
    void *to = call.out;
    call.group = rank_world(session->rank);
    if (!call.group)
        return true;
    call.stream = session->stream;
    call.out = on->api->alloc(on->device, call.stream, out_bytes, err);
    if (!call.out)
        return false;
    char *own = (char *)call.out + (call.kind == COMM_ALL_GATHER ? in_bytes * (size_t)on->rank : 0);
    call.in = own;
    lane_status_wait(on->watchdog, "for the measurements of other ranks");
    on->api->copy(call.stream, own, from, in_bytes);
    on->comm_api->issue(&call);
    on->api->copy(call.stream, to, call.out, out_bytes);
    bool ok = on->api->stream_sync(session->stream, err) && on->comm_api->poll(on->comm, err);
    on->api->free(on->device, call.stream, call.out);
    if (ok)
        lane_status_wait(on->watchdog, NULL);
    return ok;
}

bool session_reduce(struct session *session, double *values, int count, enum reduction reduction,
                    struct err *err)
{
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .in = values,
                              .out = values,
                              .count = (size_t)count,
                              .element = ELEMENT_FP64,
                              .reduction = reduction };
    return session_collect(session, call, err);
}

/* --- measurements -------------------------------------------------------------------------- */

static bool measure_peak(struct session *session, struct err *err)
{
    struct session_result *out = session->out;
    out->peak_bytes = (double)session->on.api->memory(session->on.device).high_water_bytes;
    out->passes = rank_pass_counts(session->rank);
    return session_reduce(session, &out->peak_bytes, 1, REDUCTION_MAX, err);
}

static bool count_exchanged(struct session *session, struct err *err)
{
    struct exchanged_bytes own = rank_exchanged_bytes(session->rank);
    double sums[] = { own.sent, own.planned };
    if (!session_reduce(session, sums, LENGTH(sums), REDUCTION_SUM, err))
        return false;
    double steps = session->out->num_steps;
    session->out->exchanged = (struct exchanged_bytes){ sums[0] / steps, sums[1] / steps };
    return true;
}

/* Runs all steps. The memory peak is read before the traced steps. */
static bool run_steps(struct session *session, struct err *err)
{
    const struct divergence *divergence = &session->out->divergence;
    if (!session_train(session, err) || !measure_peak(session, err) ||
        !count_exchanged(session, err))
        return false;
    bool is_traced = session->options->is_traced && divergence->kind == DIVERGENCE_NONE;
    return !is_traced || session_trace(session, err);
}

/* --- running a session -------------------------------------------------------------------- */

/* Whether the cause of the failure lies outside this rank. A report of the watchdog takes
 * precedence over later failures, which it caused. */
static bool was_interrupted(struct session *session, struct err *err)
{
    struct watchdog *watchdog = session->on.watchdog;
    struct err cause = { 0 };
    if (watchdog_has_fired(watchdog, &cause)) {
        *err = cause;
        return true;
    }
    if (session->on.comm && session->on.comm_api->poll(session->on.comm, &cause))
        return false;
    if (!session->on.comm && !atomic_load(&session->has_lost))
        return false;
    char reason[sizeof err->where + sizeof err->msg + 2];
    snprintf(reason, sizeof reason, "%s: %s", err->where, err->msg);
    watchdog_report(watchdog, session->on.comm ? cause.msg : reason);
    return true;
}

static bool run_on_device(struct session *session, struct err *err)
{
    const struct rank_device *on = &session->on;
    bool ok = (session->rank = rank_new(session->options->setup, on, err)) &&
              (session->stream = on->api->stream_new(on->device, "session", err)) &&
              run_steps(session, err);
    if (!ok) {
        session->out->is_interrupted = was_interrupted(session, err);
        session->on.comm_api->abort(session->on.comm);
    }
    watchdog_end(session->on.watchdog); /* the watchdog may still be reading the rank's state */
    session->on.api->stream_free(session->stream);
    rank_free(session->rank);
    return ok;
}

static void stop(void *context)
{
    struct session *session = context;
    atomic_store(&session->is_over, true);
    if (!atomic_load(&session->is_open))
        return;
    session->on.comm_api->abort(session->on.comm);
    session->on.api->abort(session->on.device);
}

/* Called when communication has failed, before the calls that wait return. */
static void hear(void *context)
{
    struct session *session = context;
    atomic_store(&session->has_lost, true);
    watchdog_look_last(session->on.watchdog);
}

/* Reports which rank this one waits for, before any instruction runs. */
static void tell_wait(void *context, const char *what)
{
    struct session *session = context;
    lane_status_wait(session->on.watchdog, arena_text(session->arena, what));
}

/* The status file's path, in the checkpoints' folder. */
static const char *status_path(struct session *session)
{
    const struct session_options *options = session->options;
    if (!options->checkpoint)
        return NULL;
    snprintf(session->status_path, sizeof session->status_path, "%s/rank-%d.status",
             options->checkpoint, options->place->rank);
    return session->status_path;
}

static bool open_watchdog(struct session *session, struct err *err)
{
    struct watchdog_options options = { .rank = session->options->place->rank,
                                        .status_path = status_path(session),
                                        .num_lanes = NUM_WATCHED_LANES,
                                        .limit_s = session->options->watchdog_s,
                                        .describe = lane_status_describe,
                                        .stop = stop,
                                        .context = session,
                                        .grace_s = grace_s };
    session->on.watchdog = watchdog_new(&options, err);
    return session->on.watchdog != NULL;
}

/* Opens the communicator. Only the watchdog limits the wait for other ranks. */
static bool open_comm(struct session *session, struct err *err)
{
    const struct session_options *options = session->options;
    struct comm_options comm = { .place = options->place,
                                 .device = options->device_api,
                                 .patience_s = INFINITY,
                                 .waits = { tell_wait, session, &session->is_over },
                                 .listener = { hear, session } };
    lane_status_wait(session->on.watchdog, "for the other ranks to connect");
    session->on.comm = options->comm_api->open(&comm, err);
    if (!session->on.comm) {
        session->out->is_interrupted = was_interrupted(session, err);
        return false;
    }
    lane_status_wait(session->on.watchdog, NULL);
    atomic_store(&session->is_open, true);
    return true;
}

static bool open_machine(struct session *session, struct err *err)
{
    const struct session_options *options = session->options;
    struct device_options device = { .local_rank = options->place->local_rank,
                                     .arena_bytes = options->arena_bytes };
    session->on = (struct rank_device){ .api = options->device_api,
                                        .kernel_api = options->kernel_api,
                                        .comm_api = options->comm_api,
                                        .rank = options->place->rank };
    return open_watchdog(session, err) &&
           (session->on.device = options->device_api->open(&device, err)) &&
           open_comm(session, err);
}

static void make_room(struct session *session)
{
    size_t steps = (size_t)session->options->steps;
    *session->out = (struct session_result){
        .first_step = 1,
        .copies = 1,
        .losses = ARENA_ARRAY(session->arena, double, steps),
        .gradient_norms = ARENA_ARRAY(session->arena, double, steps),
        .loss_scales = ARENA_ARRAY(session->arena, double, steps),
        .rates = ARENA_ARRAY(session->arena, double, steps),
        .is_skipped = ARENA_ARRAY(session->arena, bool, steps),
        .step_s = ARENA_ARRAY(session->arena, double, steps),
    };
}

bool session_run(const struct session_options *options, struct arena *arena,
                 struct session_result *out, struct err *err)
{
    struct session session = { .options = options, .arena = arena, .out = out };
    make_room(&session);
    if (options->checkpoint && !checkpoint_folder_open(options->checkpoint, err))
        return false;
    bool ok = open_machine(&session, err) && run_on_device(&session, err);
    watchdog_end(session.on.watchdog);
    if (session.on.comm)
        options->comm_api->close(session.on.comm);
    options->device_api->close(session.on.device);
    watchdog_free(session.on.watchdog);
    return ok;
}
