#include "exec/session.h"

#include "base/core_share.h"
#include "exec/checkpoint_folder.h"
#include "exec/whereabouts.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const double grace_s = 1; /* to come to an end once the watchdog has asked */

/* What a rank's steps need. */
struct session {
    const struct session_options *options;
    struct rank_device on;
    char status_path[CHECKPOINT_PATH];
    atomic_bool is_open;  /* device and communicator are there for the watchdog to stop */
    atomic_bool is_over;  /* the watchdog stops the run: nobody waits for other ranks any more */
    atomic_bool has_lost; /* another rank */
    struct rank *rank;
    struct stream *stream; /* of what is told after steps */
    struct arena *arena;
    struct session_result *out;
    struct divergence own; /* the first that this rank found */
};

/* --- telling each other ------------------------------------------------------------------- */

/* An all-reduce or all-gather of numbers in the host's memory, by way of the device's. */
static bool collect(struct session *session, struct comm_call call, struct err *err)
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
    whereabouts_wait(on->watchdog, "for what others measured");
    on->api->copy(call.stream, own, from, in_bytes);
    on->comm_api->issue(&call);
    on->api->copy(call.stream, to, call.out, out_bytes);
    bool ok = on->api->stream_sync(session->stream, err) && on->comm_api->poll(on->comm, err);
    on->api->free(on->device, call.stream, call.out);
    if (ok)
        whereabouts_wait(on->watchdog, NULL);
    return ok;
}

static bool reduce(struct session *session, double *values, int count, enum reduction reduction,
                   struct err *err)
{
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .in = values,
                              .out = values,
                              .count = (size_t)count,
                              .element = ELEMENT_FP64,
                              .reduction = reduction };
    return collect(session, call, err);
}

/* --- steps -------------------------------------------------------------------------------- */

static bool resume(struct session *session, struct err *err)
{
    struct checkpoint_state state;
    if (!session->options->resumes)
        return true;
    whereabouts_wait(session->on.watchdog, "for a checkpoint to be loaded");
    if (!checkpoint_load(session->rank, session->options->checkpoint, &state, err))
        return false;
    session->out->first_step = state.step + 1;
    session->out->damage = state.damage;
    session->out->copies = state.copies;
    return true;
}

/* After `done` steps of this run. */
static bool is_to_save(const struct session *session, int done)
{
    const struct session_options *options = session->options;
    bool is_last = done == options->steps;
    bool is_due = options->checkpoint_every > 0 && done % options->checkpoint_every == 0;
    return options->checkpoint && (is_last || is_due);
}

static bool save(struct session *session, int done, struct err *err)
{
    const struct session_options *options = session->options;
    if (!is_to_save(session, done))
        return true;
    whereabouts_wait(session->on.watchdog, "for a checkpoint to be saved");
    return checkpoint_save(session->rank, options->checkpoint, session->out->first_step + done - 1,
                           err);
}

/* The same on all ranks where they sum their gradients; that it was this rank's is for look(). */
static bool step_once(struct session *session, long step, struct interval *times,
                      struct step_result *out, struct err *err)
{
    struct err failure = { 0 };
    if (rank_step(session->rank, step, times, out, &failure) || failure.code == ERR_DIVERGED)
        return true;
    *err = failure;
    return false;
}

static void keep_step(struct session *session, int i, const struct step_result *result)
{
    struct session_result *out = session->out;
    out->num_steps = i + 1;
    out->losses[i] = result->loss;
    out->gradient_norms[i] = result->gradient_norm;
    out->loss_scales[i] = result->loss_scale;
    out->rates[i] = result->rate;
    out->is_skipped[i] = result->is_skipped;
    if (i >= session->options->warmups)
        out->step_s[out->num_timed++] = result->step_s;
    if (session->own.kind == DIVERGENCE_NONE && result->divergence != DIVERGENCE_NONE)
        session->own = (struct divergence){ .kind = result->divergence,
                                            .step = out->first_step + i,
                                            .rank = session->on.rank };
}

/* All ranks together: the earliest divergence that any has found, of those of one step the nearest
 * to the cause, of those the lowest rank's. */
static bool look(struct session *session, struct err *err)
{
    const struct divergence *own = &session->own;
    struct divergence *all = &session->out->divergence;
    int size = session->options->place->size;
    bool is_told = own->kind != DIVERGENCE_NONE;
    double earliest = is_told ? -(double)own->step : -HUGE_VAL;
    if (!rank_most(session->rank, &earliest, 1, err) || isinf(earliest))
        return err->code == ERR_NONE;
    is_told = is_told && (double)own->step == -earliest;
    double kind = is_told ? (double)own->kind : 0;
    if (!rank_most(session->rank, &kind, 1, err))
        return false;
    double from_last = is_told && (double)own->kind == kind ? size - own->rank : 0;
    if (!rank_most(session->rank, &from_last, 1, err))
        return false;
    *all = (struct divergence){ .kind = (enum divergence_kind)kind,
                                .step = (long)-earliest,
                                .rank = size - (int)from_last };
    return true;
}

/* Steps between looks of replicas that differ: in each alone they wait for nobody. */
enum { STEPS_BETWEEN_LOOKS = 64 };

static bool must_look(const struct session *session, int i)
{
    bool is_alike = exchange_keeps_replicas_equal(&session->options->setup->plan->exchange);
    return is_alike ? session->out->is_skipped[i]
                    : (i + 1) % STEPS_BETWEEN_LOOKS == 0 || is_to_save(session, i + 1);
}

/* Costs a sum over all ranks, so it is done where it was asked for alone. */
static bool look_for_spike(struct session *session, int i, struct err *err)
{
    struct session_result *out = session->out;
    double loss = out->losses[i];
    if (session->options->setup->spike == 0 || out->divergence.kind != DIVERGENCE_NONE)
        return true;
    if (!rank_mean_losses(session->rank, &loss, 1, err))
        return false;
    if (rank_sees_spike(session->rank, loss, &out->divergence))
        out->divergence.step = out->first_step + i;
    return true;
}

static bool train_step(struct session *session, int i, struct err *err)
{
    struct session_result *out = session->out;
    struct step_result result;
    if (!step_once(session, out->first_step + i, NULL, &result, err))
        return false;
    keep_step(session, i, &result);
    if (must_look(session, i)) {
        whereabouts_wait(session->on.watchdog, "for others to say whether training diverged");
        if (!look(session, err))
            return false;
        whereabouts_wait(session->on.watchdog, NULL);
    }
    if (!look_for_spike(session, i, err))
        return false;
    return out->divergence.kind != DIVERGENCE_NONE || save(session, i + 1, err);
}

/* Once all are done: in each step a rank waits for nobody but those that it exchanges with. */
static bool tell_steps(struct session *session, struct err *err)
{
    struct session_result *out = session->out;
    struct divergence *divergence = &out->divergence;
    if (!rank_mean_losses(session->rank, out->losses, out->num_steps, err))
        return false;
    whereabouts_wait(session->on.watchdog, "for the slowest rank's times");
    if (!rank_most(session->rank, out->step_s, out->num_timed, err) ||
        (divergence->kind == DIVERGENCE_NONE && !look(session, err)))
        return false;
    whereabouts_wait(session->on.watchdog, NULL);
    if (divergence->kind != DIVERGENCE_NONE)
        divergence->loss = out->losses[divergence->step - out->first_step];
    return true;
}

/* The least of any rank; not known when a rank does not know its own, nor on devices whose work no
 * core does. */
static bool tell_core_share(struct session *session, const struct core_time *before,
                            struct err *err)
{
    struct core_time after = core_time_now();
    bool uses_cores = session->options->device_api->uses_cores;
    double lost = 1 - (uses_cores ? core_share(before, &after) : -1);
    bool ok = reduce(session, &lost, 1, REDUCTION_MAX, err);
    session->out->core_share = 1 - lost;
    return ok;
}

static bool train(struct session *session, struct err *err)
{
    struct core_time before = { 0 };
    bool ok = resume(session, err);
    const struct divergence *divergence = &session->out->divergence;
    for (int i = 0; i < session->options->steps && ok && divergence->kind == DIVERGENCE_NONE; i++) {
        if (i == session->options->warmups)
            before = core_time_now();
        ok = train_step(session, i, err);
    }
    return ok && tell_core_share(session, &before, err) && tell_steps(session, err);
}

/* The number of the step after those that count. */
static long next_step(const struct session *session)
{
    return session->out->first_step + session->options->steps;
}

/* --- a traced step ------------------------------------------------------------------------ */

static int longest_list(const struct schedule *schedule)
{
    int most = 0;
    for (int stage = 0; stage < schedule->shape.num_stages; stage++)
        most = schedule->ranks[stage].count > most ? schedule->ranks[stage].count : most;
    return most;
}

static double first_start_s(const struct interval *times, int count)
{
    double first_s = times[0].start_s;
    for (int i = 1; i < count; i++)
        first_s = times[i].start_s < first_s ? times[i].start_s : first_s;
    return first_s;
}

/* The clocks of ranks on one machine are one; on several the first start of all is taken for the
 * same moment. */
static void keep_stage(struct session *session, int rank, const struct interval *times,
                       double begin_s)
{
    const struct plan *plan = session->options->setup->plan;
    struct coordinates at = layout_coordinates_of(plan, rank);
    if (at.at[AXIS_TENSOR] + at.at[AXIS_DATA] + at.at[AXIS_CONTEXT] > 0)
        return;
    int stage = at.at[AXIS_PIPELINE];
    struct interval *kept = session->out->timeline->ranks[stage];
    for (int i = 0; i < session->options->setup->schedule->ranks[stage].count; i++)
        kept[i] = (struct interval){ times[i].start_s - begin_s, times[i].end_s - begin_s };
}

static void keep_timeline(struct session *session, const struct interval *all, int most)
{
    const struct run_setup *setup = session->options->setup;
    int size = session->options->place->size;
    session->out->timeline = timeline_new(setup->schedule, session->arena);
    double begin_s = first_start_s(all, 1);
    for (int rank = 0; rank < size; rank++) {
        int stage = layout_coordinates_of(setup->plan, rank).at[AXIS_PIPELINE];
        double start_s =
            first_start_s(&all[(size_t)rank * (size_t)most], setup->schedule->ranks[stage].count);
        begin_s = start_s < begin_s ? start_s : begin_s;
    }
    for (int rank = 0; rank < size; rank++)
        keep_stage(session, rank, &all[(size_t)rank * (size_t)most], begin_s);
}

static bool trace_instructions(struct session *session, struct err *err)
{
    int most = longest_list(session->options->setup->schedule);
    size_t size = (size_t)session->options->place->size;
    struct interval *all = ARENA_ARRAY(session->arena, struct interval, size * (size_t)most);
    struct interval *own = &all[(size_t)session->on.rank * (size_t)most];
    struct step_result ignored;
    if (!step_once(session, next_step(session), own, &ignored, err))
        return false;
    struct comm_call call = { .kind = COMM_ALL_GATHER,
                              .in = own,
                              .out = all,
                              .count = 2 * (size_t)most,
                              .element = ELEMENT_FP64 };
    if (!collect(session, call, err))
        return false;
    keep_timeline(session, all, most);
    return true;
}

/* Of all ops that the passes of a list may run. */
static int most_ops(const struct session *session)
{
    const struct run_setup *setup = session->options->setup;
    int parts = setup->model->layers + 2;
    const struct layer_dims *dims = &rank_machine(session->rank)->dims;
    int runs = (int)head_chunks(dims, &setup->options); /* each of some of the head's ops */
    return longest_list(setup->schedule) * (parts * 2 + runs) * MAX_PART_OPS;
}

static void add_ops(struct session_result *out, const struct op_log *log)
{
    for (int i = 0; i < log->count; i++) {
        const struct op_time *time = &log->at[i];
        out->op_seconds[time->op->kind] += time->end_s - time->start_s;
        out->op_counts[time->op->kind]++;
    }
}

static bool trace_ops(struct session *session, struct err *err)
{
    struct session_result *out = session->out;
    struct machine *machine = rank_machine(session->rank);
    struct op_log log = { .room = most_ops(session) };
    struct step_result ignored;
    log.at = arena_grow(NULL, sizeof *log.at * (size_t)log.room);
    machine->log = &log;
    bool ok = step_once(session, next_step(session) + 1, NULL, &ignored, err);
    machine->log = NULL;
    if (ok)
        add_ops(out, &log);
    free(log.at);
    return ok && reduce(session, out->op_seconds, NUM_OP_KINDS, REDUCTION_SUM, err) &&
           reduce(session, out->op_counts, NUM_OP_KINDS, REDUCTION_SUM, err);
}

static bool measure_peak(struct session *session, struct err *err)
{
    struct session_result *out = session->out;
    out->peak_bytes = (double)session->on.api->memory(session->on.device).high_water_bytes;
    out->passes = rank_pass_counts(session->rank);
    return reduce(session, &out->peak_bytes, 1, REDUCTION_MAX, err);
}

static bool count_exchanged(struct session *session, struct err *err)
{
    struct exchanged_bytes own = rank_exchanged_bytes(session->rank);
    double sums[] = { own.sent, own.planned };
    if (!reduce(session, sums, 2, REDUCTION_SUM, err))
        return false;
    double steps = session->out->num_steps;
    session->out->exchanged = (struct exchanged_bytes){ sums[0] / steps, sums[1] / steps };
    return true;
}

/* The peak is that of the steps alone: timing adds nothing to memory, but comes after. */
static bool run_steps(struct session *session, struct err *err)
{
    const struct divergence *divergence = &session->out->divergence;
    if (!train(session, err) || !measure_peak(session, err) || !count_exchanged(session, err))
        return false;
    bool is_traced = session->options->is_traced && divergence->kind == DIVERGENCE_NONE;
    return (!is_traced || (trace_instructions(session, err) && trace_ops(session, err)));
}

/* --- the whole ---------------------------------------------------------------------------- */

/* Whether others are the cause. What the watchdog says comes before what it led to. */
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
    watchdog_end(session->on.watchdog); /* it may be telling what the rank is in */
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

/* That communication failed: what waits in it is about to go on. */
static void hear(void *context)
{
    struct session *session = context;
    atomic_store(&session->has_lost, true);
    watchdog_look_last(session->on.watchdog);
}

/* Whom this rank waits for, before there are instructions to wait in. */
static void tell_wait(void *context, const char *what)
{
    struct session *session = context;
    whereabouts_wait(session->on.watchdog, arena_text(session->arena, what));
}

/* In the folder of the checkpoints. */
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
                                        .describe = whereabouts_describe,
                                        .stop = stop,
                                        .context = session,
                                        .grace_s = grace_s };
    session->on.watchdog = watchdog_new(&options, err);
    return session->on.watchdog != NULL;
}

/* The watchdog alone ends the wait for the others. */
static bool open_comm(struct session *session, struct err *err)
{
    const struct session_options *options = session->options;
    struct comm_options comm = { .place = options->place,
                                 .device = options->device_api,
                                 .patience_s = INFINITY,
                                 .waits = { tell_wait, session, &session->is_over },
                                 .listener = { hear, session } };
    whereabouts_wait(session->on.watchdog, "for the other ranks to meet");
    session->on.comm = options->comm_api->open(&comm, err);
    if (!session->on.comm) {
        session->out->is_interrupted = was_interrupted(session, err);
        return false;
    }
    whereabouts_wait(session->on.watchdog, NULL);
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
