/* Two further steps of a session, which time instructions and ops. */
#include "exec/run/session_part.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>

/* The number of the step that follows the reported steps. */
static long next_step(const struct session *session)
{
    return session->out->first_step + session->options->steps;
}

static int longest_list(const struct schedule *schedule)
{
    int most = 0;
    for (int stage = 0; stage < schedule->shape.num_stages; stage++)
        most = schedule->ranks[stage].count > most ? schedule->ranks[stage].count : most;
    return most;
}

static double first_start_s(const struct interval *times, int count)
{
    double first_s = HUGE_VAL;
    for (int i = 0; i < count; i++)
        first_s = fmin(first_s, times[i].start_s);
    return first_s;
}

/* Keeps one rank's times as the times of its stage, relative to `begin_s`, the first start on any
 * rank. It assumes that all ranks share a clock, as ranks on one machine do. */
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
    double begin_s = HUGE_VAL;
    for (int rank = 0; rank < size; rank++) {
        int stage = layout_coordinates_of(setup->plan, rank).at[AXIS_PIPELINE];
        double start_s =
            first_start_s(&all[(size_t)rank * (size_t)most], setup->schedule->ranks[stage].count);
        begin_s = fmin(begin_s, start_s);
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
    if (!session_step(session, next_step(session), own, &ignored, err))
        return false;
    struct comm_call call = { .kind = COMM_ALL_GATHER,
                              .in = own,
                              .out = all,
                              .count = 2 * (size_t)most,
                              .element = ELEMENT_FP64 };
    if (!session_collect(session, call, err))
        return false;
    keep_timeline(session, all, most);
    return true;
}

/* An upper bound of the number of ops in the passes of an instruction list. */
static int most_ops(const struct session *session)
{
    const struct run_setup *setup = session->options->setup;
    int pieces = setup->model->layers + 2;
    const struct layer_dims *dims = &rank_machine(session->rank)->dims;
    /* each row block runs some of the head's ops */
    int runs = (int)head_row_blocks(dims, &setup->options);
    return longest_list(setup->schedule) * (pieces * 2 + runs) * MAX_PIECE_OPS;
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
    bool ok = session_step(session, next_step(session) + 1, NULL, &ignored, err);
    machine->log = NULL;
    if (ok)
        add_ops(out, &log);
    free(log.at);
    return ok && session_reduce(session, out->op_seconds, NUM_OP_KINDS, REDUCTION_SUM, err) &&
           session_reduce(session, out->op_counts, NUM_OP_KINDS, REDUCTION_SUM, err);
}

bool session_trace(struct session *session, struct err *err)
{
    return trace_instructions(session, err) && trace_ops(session, err);
}
