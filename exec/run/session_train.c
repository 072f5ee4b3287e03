/* The training steps of a session, which is one rank's part of a run. */
#include "exec/run/session_part.h"

#include "base/core_share.h"
#include "exec/run/lane_status.h"

#include <math.h>

static bool resume(struct session *session, struct err *err)
{
    struct checkpoint_state state;
    if (!session->options->resumes)
        return true;
    lane_status_wait(session->on.watchdog, "for a checkpoint to be loaded");
    if (!checkpoint_load(session->rank, session->options->checkpoint, &state, err))
        return false;
    session->out->first_step = state.step + 1;
    session->out->damage = state.damage;
    session->out->copies = state.copies;
    return true;
}

/* Whether to save after `done` steps of this run. */
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
    lane_status_wait(session->on.watchdog, "for a checkpoint to be saved");
    return checkpoint_save(session->rank, options->checkpoint, session->out->first_step + done - 1,
                           err);
}

/* Divergence of this rank's loss is no failure here: look() reports it. */
bool session_step(struct session *session, long step, struct interval *times,
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

/* Finds the earliest divergence of any rank; within a step the kind closest to the cause, then the
 * lowest rank. All ranks call it together. */
static bool look(struct session *session, struct err *err)
{
    const struct divergence *own = &session->own;
    struct divergence *all = &session->out->divergence;
    int size = session->options->place->size;
    bool is_reported = own->kind != DIVERGENCE_NONE;
    double earliest = is_reported ? -(double)own->step : -HUGE_VAL;
    if (!rank_most(session->rank, &earliest, 1, err) || isinf(earliest))
        return err->code == ERR_NONE;
    is_reported = is_reported && (double)own->step == -earliest;
    double kind = is_reported ? (double)own->kind : 0;
    if (!rank_most(session->rank, &kind, 1, err))
        return false;
    double from_last = is_reported && (double)own->kind == kind ? size - own->rank : 0;
    if (!rank_most(session->rank, &from_last, 1, err))
        return false;
    *all = (struct divergence){ .kind = (enum divergence_kind)kind,
                                .step = (long)-earliest,
                                .rank = size - (int)from_last };
    return true;
}

/* Steps between checks for divergence when replicas differ, so that ranks seldom wait for each
 * other. */
enum { STEPS_BETWEEN_LOOKS = 64 };

static bool must_look(const struct session *session, int i)
{
    bool is_alike = exchange_keeps_replicas_equal(&session->options->setup->plan->exchange);
    return is_alike ? session->out->is_skipped[i]
                    : (i + 1) % STEPS_BETWEEN_LOOKS == 0 || is_to_save(session, i + 1);
}

/* Looks for a spike of the mean loss. It needs a sum over all ranks, so it runs only if a limit is
 * set. */
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
    if (!session_step(session, out->first_step + i, NULL, &result, err))
        return false;
    keep_step(session, i, &result);
    if (must_look(session, i)) {
        lane_status_wait(session->on.watchdog,
                         "for other ranks to report whether training diverged");
        if (!look(session, err))
            return false;
        lane_status_wait(session->on.watchdog, NULL);
    }
    if (!look_for_spike(session, i, err))
        return false;
    return out->divergence.kind != DIVERGENCE_NONE || save(session, i + 1, err);
}

/* Combines the results of all ranks. It runs after all steps, because during a step a rank waits
 * only for ranks that it exchanges data with. */
static bool tell_steps(struct session *session, struct err *err)
{
    struct session_result *out = session->out;
    struct divergence *divergence = &out->divergence;
    if (!rank_mean_losses(session->rank, out->losses, out->num_steps, err))
        return false;
    lane_status_wait(session->on.watchdog, "for the slowest rank's times");
    if (!rank_most(session->rank, out->step_s, out->num_timed, err) ||
        (divergence->kind == DIVERGENCE_NONE && !look(session, err)))
        return false;
    lane_status_wait(session->on.watchdog, NULL);
    if (divergence->kind != DIVERGENCE_NONE)
        divergence->loss = out->losses[divergence->step - out->first_step];
    return true;
}

/* Sets the core share to the least of any rank. It is unknown if a rank cannot measure its own, and
 * on devices that do not compute on CPU cores. */
static bool tell_core_share(struct session *session, const struct core_time *before,
                            struct err *err)
{
    struct core_time after = core_time_now();
    bool uses_cores = session->options->device_api->uses_cores;
    double lost = 1 - (uses_cores ? core_share(before, &after) : -1);
    bool ok = session_reduce(session, &lost, 1, REDUCTION_MAX, err);
    session->out->core_share = 1 - lost;
    return ok;
}

bool session_train(struct session *session, struct err *err)
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
