#include "sim/engine/events.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* Instructions of one lane of one rank, in order. */
struct queue {
    int *at;
    int count;
    int head;
    bool is_running;
    bool is_counted; /* its head has arrived at the barrier of the norm */
};

/* One rank's list, with what it has beyond it. */
struct rank {
    const struct instr *list;
    struct interval *times;
    bool *done;
    int *held; /* one more instruction each waits for, where overlap is off; or NO_INSTR */
    struct queue queues[NUM_LANES];
};

struct events {
    const struct schedule *schedule;
    const struct step_cost *cost;
    struct timeline *timeline;
    struct progress *progress;
    struct rank *ranks;
    int at_norm; /* ranks whose head is NORM_GRAD */
};

static struct queue *queue_of(const struct events *e, int rank, enum opcode op)
{
    return &e->ranks[rank].queues[opcode_infos[op].lane];
}

/* NO_INSTR when the lane is through. */
static int head_of(const struct queue *queue)
{
    return queue->head < queue->count ? queue->at[queue->head] : NO_INSTR;
}

static bool is_done(const struct rank *rank, int instr)
{
    return instr == NO_INSTR || rank->done[instr];
}

/* Idle, and nothing of its own rank keeps the head from starting. */
static bool is_ready(const struct rank *rank, const struct queue *queue)
{
    int head = head_of(queue);
    return head != NO_INSTR && !queue->is_running && is_done(rank, rank->list[head].after) &&
           is_done(rank, rank->held[head]);
}

static struct activity activity_of(const struct events *e, int rank, const struct instr *instr)
{
    struct activity activity = { .rank = rank,
                                 .peer = instr->peer,
                                 .wire = e->cost->message_wire,
                                 .alone_s = instr_alone_s(e->cost, rank, instr) };
    switch (opcode_infos[instr->op].lane) {
    case LANE_COMPUTE:
        activity.kind = ACTIVITY_COMPUTE;
        break;
    case LANE_SEND_DOWN:
    case LANE_RECV_DOWN:
    case LANE_SEND_UP:
    case LANE_RECV_UP:
        activity.kind = e->cost->messages_are_delays ? ACTIVITY_DELAY : ACTIVITY_MESSAGE;
        break;
    case LANE_DATA:
        activity.kind = ACTIVITY_EXCHANGE;
        if (instr->op != INSTR_REDUCE_TIED)
            activity.wire = e->cost->data_wire;
        break;
    case NUM_LANES:
        assert(!"a lane");
    }
    return activity;
}

/* --- starting ----------------------------------------------------------------------------- */

static int slot_of(const struct events *e, int rank, const struct queue *queue)
{
    return rank * NUM_LANES + (int)(queue - e->ranks[rank].queues);
}

static void mark_start(struct events *e, int rank, struct queue *queue)
{
    queue->is_running = true;
    e->ranks[rank].times[head_of(queue)].start_s = progress_now_s(e->progress);
}

static void start_for(struct events *e, int rank, struct queue *queue, double alone)
{
    struct activity activity = activity_of(e, rank, &e->ranks[rank].list[head_of(queue)]);
    activity.alone_s = alone;
    mark_start(e, rank, queue);
    progress_start(e->progress, slot_of(e, rank, queue), activity);
}

static void start(struct events *e, int rank, struct queue *queue)
{
    start_for(e, rank, queue, instr_alone_s(e->cost, rank, &e->ranks[rank].list[head_of(queue)]));
}

/* Whether both ends run as one. */
static bool is_paired(const struct events *e, const struct instr *instr)
{
    return instr->peer >= 0 && (instr->op == INSTR_REDUCE_TIED || !e->cost->messages_are_delays);
}

/* The end that progress knows of: of a message the sender, else the lower rank. The other end runs
 * and ends with it. */
static bool is_leader(int rank, const struct instr *instr)
{
    return instr->op == INSTR_REDUCE_TIED ? rank < instr->peer : !instr_is_receive(instr->op);
}

/* Both ends at once, or neither yet. */
static void start_pair(struct events *e, int rank, struct queue *queue)
{
    const struct instr *head = &e->ranks[rank].list[head_of(queue)];
    struct rank *far = &e->ranks[head->peer];
    enum opcode far_op = instr_far_opcode(head->op);
    struct queue *far_queue = queue_of(e, head->peer, far_op);
    if (!is_ready(far, far_queue) || far->list[head_of(far_queue)].op != far_op)
        return;
    bool leads = is_leader(rank, head);
    if (leads)
        mark_start(e, head->peer, far_queue);
    else
        mark_start(e, rank, queue);
    start(e, leads ? rank : head->peer, leads ? queue : far_queue);
}

/* The k-th receive of a link is of its k-th send. */
static void start_delayed_receive(struct events *e, int rank, struct queue *queue)
{
    const struct instr *head = &e->ranks[rank].list[head_of(queue)];
    const struct rank *far = &e->ranks[head->peer];
    const struct queue *sends = queue_of(e, head->peer, instr_far_opcode(head->op));
    bool is_sent = sends->head > queue->head || (sends->head == queue->head && sends->is_running);
    if (!is_sent)
        return;
    double sent_s = far->times[sends->at[queue->head]].start_s;
    double arrives_s = sent_s + e->cost->message_s;
    start_for(e, rank, queue, fmax(0, arrives_s - progress_now_s(e->progress)));
}

/* A message that is a delay leaves at once, and its receive can tell when it arrives; the stage
 * goes on, unless it is to wait. */
static void start_delayed_send(struct events *e, int rank, struct queue *queue)
{
    const struct instr *head = &e->ranks[rank].list[head_of(queue)];
    struct queue *far = queue_of(e, head->peer, instr_far_opcode(head->op));
    start_for(e, rank, queue, e->cost->blocking ? e->cost->message_s : 0);
    if (is_ready(&e->ranks[head->peer], far))
        start_delayed_receive(e, head->peer, far);
}

static void start_norm(struct events *e, struct queue *queue)
{
    if (queue->is_counted)
        return;
    queue->is_counted = true;
    if (++e->at_norm < e->schedule->shape.num_stages)
        return;
    for (int rank = 0; rank < e->schedule->shape.num_stages; rank++)
        start(e, rank, queue_of(e, rank, INSTR_NORM_GRAD));
}

static void try_to_start(struct events *e, int rank, struct queue *queue)
{
    if (!is_ready(&e->ranks[rank], queue))
        return;
    enum opcode op = e->ranks[rank].list[head_of(queue)].op;
    switch (op) {
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
        start_norm(e, queue);
        return;
    case INSTR_FORWARD:
    case INSTR_BACKWARD:
    case INSTR_BACKWARD_INPUT:
    case INSTR_BACKWARD_WEIGHT:
    case INSTR_RECOMPUTE:
    case INSTR_GATHER_PARAM:
    case INSTR_WAIT_PARAM:
    case INSTR_FREE_PARAM:
    case INSTR_REDUCE_GRAD:
    case INSTR_OPTIMIZER:
        start(e, rank, queue);
        return;
    }
}

static void try_all(struct events *e, int rank)
{
    for (int lane = 0; lane < NUM_LANES; lane++)
        try_to_start(e, rank, &e->ranks[rank].queues[lane]);
}

/* --- ending ------------------------------------------------------------------------------- */

static void finish(struct events *e, int rank, struct queue *queue)
{
    int instr = head_of(queue);
    e->ranks[rank].times[instr].end_s = progress_now_s(e->progress);
    e->ranks[rank].done[instr] = true;
    queue->is_running = false;
    queue->head++;
}

/* Only an end lets others start: on its own rank, and on the other of a pair. */
static void finish_slot(struct events *e, int slot)
{
    int rank = slot / NUM_LANES;
    struct queue *queue = &e->ranks[rank].queues[slot % NUM_LANES];
    const struct instr *instr = &e->ranks[rank].list[head_of(queue)];
    finish(e, rank, queue);
    if (is_paired(e, instr)) {
        finish(e, instr->peer, queue_of(e, instr->peer, instr_far_opcode(instr->op)));
        try_all(e, instr->peer);
    }
    try_all(e, rank);
}

/* --- a run -------------------------------------------------------------------------------- */

static void fill_queues(struct rank *rank, int count, struct arena *arena)
{
    for (int i = 0; i < count; i++)
        rank->queues[opcode_infos[rank->list[i].op].lane].count++;
    for (int lane = 0; lane < NUM_LANES; lane++) {
        struct queue *queue = &rank->queues[lane];
        queue->at = ARENA_ARRAY(arena, int, (size_t)queue->count);
        queue->count = 0;
    }
    for (int i = 0; i < count; i++) {
        struct queue *queue = &rank->queues[opcode_infos[rank->list[i].op].lane];
        queue->at[queue->count++] = i;
    }
}

static void fill_rank(struct events *e, int index, struct arena *arena)
{
    const struct instrs *list = &e->schedule->ranks[index];
    struct rank *rank = &e->ranks[index];
    rank->list = list->at;
    rank->times = e->timeline->ranks[index];
    rank->done = ARENA_ARRAY(arena, bool, (size_t)list->count);
    rank->held = ARENA_ARRAY(arena, int, (size_t)list->count);
    step_holds(e->cost, list, rank->held);
    fill_queues(rank, list->count, arena);
}

static bool fail_if_left(const struct events *e, struct err *err)
{
    for (int rank = 0; rank < e->schedule->shape.num_stages; rank++)
        for (int i = 0; i < e->schedule->ranks[rank].count; i++)
            if (!e->ranks[rank].done[i]) {
                char where[64];
                snprintf(where, sizeof where, "stage %d, instruction %d", rank, i);
                return err_set(err, ERR_INFEASIBLE, where,
                               "deadlock: it waits for what waits for it, after %g s",
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
        .progress = progress_new(num_ranks, NUM_LANES, cost->slowdowns, &scratch),
        .ranks = ARENA_ARRAY(&scratch, struct rank, (size_t)num_ranks),
    };
    for (int rank = 0; rank < num_ranks; rank++)
        fill_rank(&e, rank, &scratch);
    run(&e);
    bool ok = fail_if_left(&e, err);
    arena_release(&scratch);
    return ok ? timeline : NULL;
}
