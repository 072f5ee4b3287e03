#include "sim/cost/list_cost.h"

#include "sim/cost/straggler.h"
#include "sim/cost/user_buffers.h"
#include "sim/plan/axis.h"

#include <assert.h>
#include <math.h>

enum { MAX_STREAMS = STREAM_COMPUTE + 1 + MAX_AXES };

/* State while an op list is simulated. Each stream runs its ops in order, and an op starts only
 * when its op of after[] has ended. */
struct flight {
    const struct list_timer *timer;
    const struct timed_op *ops;
    int count;
    int after[MAX_LIST_OPS];     /* the op that each op waits for, or -1 */
    double left_s[MAX_LIST_OPS]; /* remaining time when run alone */
    bool done[MAX_LIST_OPS];
    int num_streams; /* index of the last stream with ops, plus 1 */
    int head[MAX_STREAMS];
    double exposed_s[MAX_STREAMS]; /* exposed time of each stream so far */
};

/* The stream's current op; -1 when it has none or must wait. */
static int running(struct flight *f, enum op_stream stream)
{
    int *head = &f->head[stream];
    while (*head < f->count && (f->ops[*head].stream != stream || f->done[*head]))
        (*head)++;
    if (*head == f->count)
        return -1;
    int after = f->after[*head];
    return after < 0 || f->done[after] ? *head : -1;
}

static void advance(struct flight *f, int op, double alone_s)
{
    if (op < 0)
        return;
    f->left_s[op] -= alone_s;
    f->done[op] = f->left_s[op] <= 0;
}

/* Factor on compute time while the ops at[] run; some of them may communicate. */
static double compute_slowdown(const struct flight *f, const int at[MAX_STREAMS])
{
    double slowdown = f->timer->profile->overlap_compute_slowdown;
    if (f->timer->buffer_ranks == 0)
        return slowdown;
    for (int i = STREAM_COMPUTE + 1; i < f->num_streams; i++)
        if (i != STREAM_TENSOR && at[i] >= 0)
            return slowdown;
    return fmin(slowdown, user_buffers_slowdown(f->timer->num_sms));
}

/* Time until one of the running ops ends. While compute and another stream are both busy, each
 * slows the other. */
static double fly_to_next_end(struct flight *f, const int at[MAX_STREAMS])
{
    const struct profile *profile = f->timer->profile;
    bool communicates = false;
    for (int i = STREAM_COMPUTE + 1; i < f->num_streams; i++)
        communicates |= at[i] >= 0;
    bool both = at[STREAM_COMPUTE] >= 0 && communicates;
    double slowdown[MAX_STREAMS];
    double end_s[MAX_STREAMS];
    double step_s = HUGE_VAL;
    for (int i = 0; i < f->num_streams; i++) {
        slowdown[i] = !both                 ? 1
                      : i == STREAM_COMPUTE ? compute_slowdown(f, at)
                                            : profile->overlap_comm_slowdown;
        end_s[i] = at[i] >= 0 ? f->left_s[at[i]] * slowdown[i] : HUGE_VAL;
        step_s = fmin(step_s, end_s[i]);
    }
    /* The time that compute lost, by waiting or by slowdown, is exposed communication. */
    for (int i = STREAM_COMPUTE + 1; i < f->num_streams; i++)
        if (at[i] >= 0)
            f->exposed_s[i] +=
                at[STREAM_COMPUTE] < 0 ? step_s : step_s - step_s / slowdown[STREAM_COMPUTE];
    for (int i = 0; i < f->num_streams; i++)
        advance(f, at[i], end_s[i] <= step_s ? f->left_s[at[i]] : step_s / slowdown[i]);
    return step_s;
}

static double makespan_s(struct flight *f)
{
    double now_s = 0;
    for (;;) {
        int at[MAX_STREAMS];
        bool is_idle = true;
        for (int i = 0; i < f->num_streams; i++) {
            at[i] = running(f, (enum op_stream)i);
            is_idle &= at[i] < 0;
        }
        if (is_idle)
            return now_s;
        now_s += fly_to_next_end(f, at);
    }
}

/* A stream's part of the exposed time. If no other stream communicates, it is exactly `comm_s`. */
static double exposed_by(const struct flight *flight, const bool has_ops[MAX_STREAMS],
                         enum op_stream stream, double comm_s)
{
    bool has_others = false;
    for (int i = STREAM_COMPUTE + 1; i < flight->num_streams; i++)
        has_others |= i != (int)stream && has_ops[i];
    return has_others || flight->exposed_s[stream] == 0 ? flight->exposed_s[stream] : comm_s;
}

/* In a collective all ranks of a group wait for the last of them. */
struct list_cost timed_list_cost(const struct list_timer *timer, const struct timed_op *ops,
                                 int count)
{
    assert(count <= MAX_LIST_OPS);
    struct flight flight = { .timer = timer, .ops = ops, .count = count };
    struct list_cost cost = { 0 };
    bool has_ops[MAX_STREAMS] = { false };
    double met_s = 0; /* compute time up to the last collective */
    for (int i = 0; i < count; i++) {
        const struct timed_op *op = &ops[i];
        flight.left_s[i] = op->alone_s;
        flight.after[i] = op->after;
        if (op->num_ranks > 0) {
            flight.left_s[i] +=
                drift_wait_s(timer->profile->drift_s, cost.compute_s - met_s, op->num_ranks);
            met_s = cost.compute_s;
        }
        has_ops[op->stream] = true;
        if (flight.num_streams <= (int)op->stream)
            flight.num_streams = (int)op->stream + 1;
        if (op->stream == STREAM_COMPUTE)
            cost.compute_s += flight.left_s[i];
        if (op->kind == OP_FLASH_ATTENTION)
            cost.attention_s += flight.left_s[i];
        cost.kernels += op->kernels;
        cost.flops += op->flops;
    }
    if (timer->buffer_ranks > 0)
        user_buffers_overlap(ops, count, timer->buffer_ranks, flight.after, flight.left_s);
    cost.total_s = makespan_s(&flight);
    cost.comm_s = cost.total_s - cost.compute_s;
    cost.context_s = exposed_by(&flight, has_ops, STREAM_CONTEXT, cost.comm_s);
    cost.expert_s = exposed_by(&flight, has_ops, STREAM_EXPERT, cost.comm_s);
    return cost;
}
