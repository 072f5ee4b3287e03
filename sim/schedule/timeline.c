#include "sim/schedule/timeline.h"

#include <math.h>
#include <stdio.h>

struct timeline *timeline_new(const struct schedule *schedule, struct arena *arena)
{
    struct timeline *timeline = ARENA_NEW(arena, struct timeline);
    int num_ranks = schedule->shape.num_stages;
    timeline->schedule = schedule;
    timeline->ranks = ARENA_ARRAY(arena, struct interval *, (size_t)num_ranks);
    for (int rank = 0; rank < num_ranks; rank++) {
        size_t count = (size_t)schedule->ranks[rank].count;
        timeline->ranks[rank] = ARENA_ARRAY(arena, struct interval, count);
    }
    return timeline;
}

double timeline_end_s(const struct timeline *timeline)
{
    double end_s = 0;
    for (int rank = 0; rank < timeline->schedule->shape.num_stages; rank++)
        for (int i = 0; i < timeline->schedule->ranks[rank].count; i++)
            end_s = fmax(end_s, timeline->ranks[rank][i].end_s);
    return end_s;
}

static double rank_own_s(const struct instrs *list, const struct interval *times)
{
    double start_s = HUGE_VAL;
    double end_s = 0;
    for (int i = 0; i < list->count; i++) {
        if (timeline_is_pass(list->at[i].op))
            start_s = fmin(start_s, times[i].start_s);
        end_s = fmax(end_s, times[i].end_s);
    }
    return end_s - fmin(start_s, end_s);
}

double timeline_own_s(const struct timeline *timeline)
{
    double own_s = 0;
    for (int rank = 0; rank < timeline->schedule->shape.num_stages; rank++)
        own_s = fmax(own_s, rank_own_s(&timeline->schedule->ranks[rank], timeline->ranks[rank]));
    return own_s;
}

double timeline_busy_s(const struct timeline *timeline, int rank, enum lane lane)
{
    const struct instrs *list = &timeline->schedule->ranks[rank];
    double busy_s = 0;
    for (int i = 0; i < list->count; i++)
        if (instr_lane(&list->at[i]) == lane)
            busy_s += timeline->ranks[rank][i].end_s - timeline->ranks[rank][i].start_s;
    return busy_s;
}

bool timeline_is_pass(enum opcode op)
{
    switch (op) {
    case INSTR_FORWARD:
    case INSTR_BACKWARD:
    case INSTR_BACKWARD_INPUT:
    case INSTR_BACKWARD_WEIGHT:
    case INSTR_RECOMPUTE:
        return true;
    case INSTR_SEND_ACT:
    case INSTR_RECV_ACT:
    case INSTR_SEND_GRAD:
    case INSTR_RECV_GRAD:
    case INSTR_GATHER_PARAM:
    case INSTR_REDUCE_GRAD:
    case INSTR_MIX_PARAM:
    case INSTR_REDUCE_TIED:
    case INSTR_NORM_GRAD:
    case INSTR_OPTIMIZER:
        return false;
    }
    return false;
}

struct interval timeline_passes(const struct timeline *timeline)
{
    struct interval passes = { HUGE_VAL, 0 };
    for (int rank = 0; rank < timeline->schedule->shape.num_stages; rank++) {
        const struct instrs *list = &timeline->schedule->ranks[rank];
        for (int i = 0; i < list->count; i++) {
            if (!timeline_is_pass(list->at[i].op))
                continue;
            passes.start_s = fmin(passes.start_s, timeline->ranks[rank][i].start_s);
            passes.end_s = fmax(passes.end_s, timeline->ranks[rank][i].end_s);
        }
    }
    return passes;
}

/* Checks an instruction against the one before it on its lane (in-order queue); `last` has the last
 * instruction of each lane before this one. */
static bool check_instr(const struct timeline *timeline, int rank, int i, const int *last,
                        double slack_s, struct err *err)
{
    const struct instr *instr = &timeline->schedule->ranks[rank].at[i];
    const struct interval *times = timeline->ranks[rank];
    int before = last[instr_lane(instr)];
    char where[64];
    snprintf(where, sizeof where, "stage %d, instruction %d", rank, i);
    if (times[i].end_s < times[i].start_s - slack_s)
        return err_set(err, ERR_INPUT, where, "ends at %g s, before it starts at %g s",
                       times[i].end_s, times[i].start_s);
    if (before != NO_INSTR && times[i].start_s < times[before].end_s - slack_s)
        return err_set(err, ERR_INPUT, where,
                       "starts at %g s, before instruction %d on the same lane ends at %g s",
                       times[i].start_s, before, times[before].end_s);
    if (instr->after != NO_INSTR && times[i].start_s < times[instr->after].end_s - slack_s)
        return err_set(err, ERR_INPUT, where,
                       "starts at %g s, before instruction %d, which it needs, ends at %g s",
                       times[i].start_s, instr->after, times[instr->after].end_s);
    return true;
}

bool timeline_check(const struct timeline *timeline, double slack_s, struct err *err)
{
    for (int rank = 0; rank < timeline->schedule->shape.num_stages; rank++) {
        const struct instrs *list = &timeline->schedule->ranks[rank];
        int last[NUM_ALL_LANES];
        for (int lane = 0; lane < NUM_ALL_LANES; lane++)
            last[lane] = NO_INSTR;
        for (int i = 0; i < list->count; i++) {
            if (!check_instr(timeline, rank, i, last, slack_s, err))
                return false;
            last[instr_lane(&list->at[i])] = i;
        }
    }
    return true;
}
