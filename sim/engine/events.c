/* The event engine. Each lane of a stage (compute, sends, receives, data exchange) is a queue of
 * jobs; the head of a queue is its next job. A pair is two jobs on two ranks, such as a send and
 * its receive, that start and end together. */
#include "sim/engine/events.h"

#include "sim/engine/jobs.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* The lanes of one rank, and the array for the times of its instructions. */
struct rank {
    struct job_lanes lanes;
    struct interval *times;
};

struct events {
    const struct schedule *schedule;
    const struct step_cost *cost;
    struct timeline *timeline;
    struct progress *progress;
    struct rank *ranks;
    int at_norm; /* ranks whose head is NORM_GRAD */
};

static struct queue *queue_of(const struct events *e, int rank, enum lane lane)
{
    return &e->ranks[rank].lanes.queues[lane];
}

static enum lane lane_of(const struct events *e, int rank, const struct queue *queue)
{
    return (enum lane)(queue - e->ranks[rank].lanes.queues);
}

/* The queue at the other end of the link that the queue's head uses. */
static struct queue *far_queue_of(const struct events *e, int rank, const struct queue *queue)
{
    return queue_of(e, queue_head(queue)->peer, lane_far(lane_of(e, rank, queue)));
}

static enum activity_kind kind_of(const struct events *e, enum lane lane)
{
    switch (lane) {
    case LANE_COMPUTE:
        return ACTIVITY_COMPUTE;
    case LANE_SEND_DOWN:
    case LANE_RECV_DOWN:
    case LANE_SEND_UP:
    case LANE_RECV_UP:
    case LANE_TURNED_SEND_DOWN:
    case LANE_TURNED_RECV_DOWN:
    case LANE_TURNED_SEND_UP:
    case LANE_TURNED_RECV_UP:
        return e->cost->messages_are_delays ? ACTIVITY_DELAY : ACTIVITY_MESSAGE;
    case LANE_DATA:
        return ACTIVITY_EXCHANGE;
    case NUM_ALL_LANES:
        break;
    }
    assert(!"a lane");
    return ACTIVITY_DELAY;
}

/* --- starting ------------------------------------------------------------------------------ */

static int slot_of(const struct events *e, int rank, const struct queue *queue)
{
    return rank * NUM_ALL_LANES + (int)lane_of(e, rank, queue);
}

static void mark_start(struct events *e, int rank, struct queue *queue)
{
    queue->is_running = true;
    e->ranks[rank].times[queue_head(queue)->instr].start_s = progress_now_s(e->progress);
}

static void start_for(struct events *e, int rank, struct queue *queue, double alone_s)
{
    const struct job *job = queue_head(queue);
    int slot = slot_of(e, rank, queue);
    struct activity *activity = progress_slot(e->progress, slot);
    activity->kind = kind_of(e, lane_of(e, rank, queue));
    activity->rank = rank;
    activity->peer = job->peer;
    activity->wire = (enum wire)job->wire;
    activity->alone_s = alone_s;
    mark_start(e, rank, queue);
    progress_start(e->progress, slot);
}

static void start(struct events *e, int rank, struct queue *queue)
{
    start_for(e, rank, queue, queue_head(queue)->alone_s);
}

/* Whether a job has two ends, on two ranks, that start and end together. */
static bool is_paired(const struct events *e, const struct job *job)
{
    return job->peer >= 0 && (job->op == INSTR_REDUCE_TIED || !e->cost->messages_are_delays);
}

/* Whether this end of a pair is the one registered with progress (progress.h): a message's sender,
 * else the lower rank. The other end starts and ends with it. */
static bool is_leader(int rank, const struct job *job)
{
    return job->op == INSTR_REDUCE_TIED ? rank < job->peer : !instr_is_receive(job->op);
}

/* Starts both ends at once, or neither. */
static void start_pair(struct events *e, int rank, struct queue *queue)
{
    const struct job *head = queue_head(queue);
    struct queue *far_queue = far_queue_of(e, rank, queue);
    if (!queue_is_ready(&e->ranks[head->peer].lanes, far_queue) ||
        queue_head(far_queue)->op != instr_far_opcode(head->op))
        return;
    bool leads = is_leader(rank, head);
    if (leads)
        mark_start(e, head->peer, far_queue);
    else
        mark_start(e, rank, queue);
    start(e, leads ? rank : head->peer, leads ? queue : far_queue);
}

/* The k-th receive of a link matches its k-th send. */
static void start_delayed_receive(struct events *e, int rank, struct queue *queue)
{
    const struct job *head = queue_head(queue);
    const struct queue *sends = far_queue_of(e, rank, queue);
    int place = queue->head;
    bool is_sent = sends->head > place || (sends->head == place && sends->is_running);
    if (!is_sent)
        return;
    const struct job *send = &sends->jobs[place];
    double arrives_s = e->ranks[head->peer].times[send->instr].start_s + send->alone_s;
    start_for(e, rank, queue, fmax(0, arrives_s - progress_now_s(e->progress)));
}

/* A message that is modelled as a delay starts at once, and its receive ends when it arrives. The
 * sending stage continues at once unless sends block. */
static void start_delayed_send(struct events *e, int rank, struct queue *queue)
{
    const struct job *head = queue_head(queue);
    struct queue *far = far_queue_of(e, rank, queue);
    start_for(e, rank, queue, e->cost->blocking ? head->alone_s : 0);
    if (queue_is_ready(&e->ranks[head->peer].lanes, far))
        start_delayed_receive(e, head->peer, far);
}

static void start_norm(struct events *e, int rank, struct queue *queue)
{
    if (e->cost->validates) {
        start(e, rank, queue);
        return;
    }
    if (queue->is_counted)
        return;
    queue->is_counted = true;
    if (++e->at_norm < e->schedule->shape.num_stages)
        return;
    for (int stage = 0; stage < e->schedule->shape.num_stages; stage++)
        start(e, stage, queue_of(e, stage, LANE_DATA));
}

static void try_to_start(struct events *e, int rank, struct queue *queue)
{
    if (!queue_is_ready(&e->ranks[rank].lanes, queue))
        return;
    switch ((enum opcode)queue_head(queue)->op) {
    case INSTR_SEND_ACT:
    case INSTR_SEND_GRAD:
        if (e->cost->messages_are_delays)
            start_delayed_send(e, rank, queue);
        else
            start_pair(e, rank, queue);
        return;
    case INSTR_RECV_ACT:
    case INSTR_RECV_GRAD:
        if (e->cost->messages_are_delays)
            start_delayed_receive(e, rank, queue);
        else
            start_pair(e, rank, queue);
        return;
    case INSTR_REDUCE_TIED:
        start_pair(e, rank, queue);
        return;
    case INSTR_NORM_GRAD:
        start_norm(e, rank, queue);
        return;
    case INSTR_FORWARD:
    case INSTR_BACKWARD:
    case INSTR_BACKWARD_INPUT:
    case INSTR_BACKWARD_WEIGHT:
    case INSTR_RECOMPUTE:
    case INSTR_GATHER_PARAM:
    case INSTR_REDUCE_GRAD:
    case INSTR_MIX_PARAM:
    case INSTR_OPTIMIZER:
        start(e, rank, queue);
        return;
    }
}

static void try_all(struct events *e, int rank)
{
    for (int lane = 0; lane < NUM_ALL_LANES; lane++)
        try_to_start(e, rank, &e->ranks[rank].lanes.queues[lane]);
}

static void try_woken(struct events *e, int rank, enum lane ended)
{
    unsigned woken = e->ranks[rank].lanes.wakes[ended];
    for (int lane = 0; lane < NUM_ALL_LANES; lane++)
        if (woken & 1U << lane)
            try_to_start(e, rank, &e->ranks[rank].lanes.queues[lane]);
}

/* --- ending -------------------------------------------------------------------------------- */

/* Prefetches the next job's memory. Every lane of every stage is a separate stream, too many for
 * the hardware prefetcher. */
static void fetch_ahead(const struct rank *rank, const struct queue *queue)
{
    enum { JOBS_AHEAD = 2, TIMES_AHEAD = 8 };
    if (queue->head + JOBS_AHEAD >= queue->count)
        return;
    __builtin_prefetch(&queue->jobs[queue->head + JOBS_AHEAD]);
    __builtin_prefetch(&rank->times[queue->jobs[queue->head].instr] + TIMES_AHEAD, 1);
}

static void finish(struct events *e, int rank, struct queue *queue)
{
    e->ranks[rank].times[queue_head(queue)->instr].end_s = progress_now_s(e->progress);
    queue->is_running = false;
    queue->head++;
    fetch_ahead(&e->ranks[rank], queue);
}

/* Ends a job and starts those that waited for it, on its own rank and on the rank of its other
 * end. */
static void finish_slot(struct events *e, int slot)
{
    int rank = slot / NUM_ALL_LANES;
    enum lane lane = (enum lane)(slot % NUM_ALL_LANES);
    struct queue *queue = &e->ranks[rank].lanes.queues[lane];
    const struct job *job = queue_head(queue);
    finish(e, rank, queue);
    if (is_paired(e, job)) {
        enum lane far_lane = lane_far(lane);
        finish(e, job->peer, &e->ranks[job->peer].lanes.queues[far_lane]);
        try_woken(e, job->peer, far_lane);
    }
    try_woken(e, rank, lane);
}

/* --- a run --------------------------------------------------------------------------------- */

static int first_left(const struct job_lanes *lanes)
{
    int first = NO_INSTR;
    for (int lane = 0; lane < NUM_ALL_LANES; lane++) {
        const struct job *head = queue_head(&lanes->queues[lane]);
        if (head && (first == NO_INSTR || head->instr < first))
            first = head->instr;
    }
    return first;
}

static bool fail_if_left(const struct events *e, struct err *err)
{
    for (int rank = 0; rank < e->schedule->shape.num_stages; rank++) {
        int left = first_left(&e->ranks[rank].lanes);
        if (left == NO_INSTR)
            continue;
        char where[64];
        snprintf(where, sizeof where, "stage %d, instruction %d", rank, left);
        return err_set(err, ERR_INFEASIBLE, where,
                       "deadlock after %g s: instructions wait for each other",
                       progress_now_s(e->progress));
    }
    return true;
}

static void run(struct events *e)
{
    for (int rank = 0; rank < e->schedule->shape.num_stages; rank++)
        try_all(e, rank);
    for (int slot = progress_next(e->progress); slot >= 0; slot = progress_next(e->progress))
        finish_slot(e, slot);
}

struct timeline *events_run(const struct schedule *schedule, const struct step_cost *cost,
                            struct arena *arena, struct err *err)
{
    struct timeline *timeline = timeline_new(schedule, arena);
    struct arena scratch = { 0 };
    int num_ranks = schedule->shape.num_stages;
    struct events e = {
        .schedule = schedule,
        .cost = cost,
        .timeline = timeline,
        .progress = progress_new(num_ranks, NUM_ALL_LANES, cost->slowdowns, &scratch),
        .ranks = ARENA_ARRAY(&scratch, struct rank, (size_t)num_ranks),
    };
    for (int rank = 0; rank < num_ranks; rank++) {
        e.ranks[rank].times = timeline->ranks[rank];
        job_lanes_fill(&e.ranks[rank].lanes, cost, schedule, rank, &scratch);
    }
    run(&e);
    bool ok = fail_if_left(&e, err);
    arena_release(&scratch);
    return ok ? timeline : NULL;
}
