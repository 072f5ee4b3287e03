/* Runs all stages together without times. A lane is an in-order queue of a stage's instructions;
 * its head is the first unfinished one. It finishes when the instruction named by its `after` has
 * finished; a message finishes only when its send and its receive are both heads. The run finishes
 * all that it can, in any order. Finishing one instruction never blocks another. So if instructions
 * remain, every run deadlocks, and if none remain, no run does. */
#include "sim/schedule/proof.h"
#include "sim/schedule/text_form.h"

#include <stdio.h>

/* Instructions of one lane of one stage, in order. */
struct queue {
    int *at;
    int count;
    int head;
    bool is_pending; /* already on the stack of lanes to examine */
    bool is_counted; /* its head is a NORM_GRAD and has been counted in at_norm */
};

struct run {
    const struct schedule *schedule;
    struct queue *queues; /* num_stages x NUM_ALL_LANES */
    bool **done;          /* [stage][instruction] */
    struct queue **stack;
    int depth;
    int at_norm; /* number of stages whose head is NORM_GRAD, which waits for all stages */
    struct err *err;
};

static struct queue *queue_of(const struct run *run, int stage, enum lane lane)
{
    return &run->queues[stage * NUM_ALL_LANES + (int)lane];
}

static int stage_of(const struct run *run, const struct queue *queue)
{
    return (int)(queue - run->queues) / NUM_ALL_LANES;
}

static const struct instr *head_of(const struct run *run, const struct queue *queue)
{
    if (queue->head == queue->count)
        return NULL;
    return &run->schedule->ranks[stage_of(run, queue)].at[queue->at[queue->head]];
}

static bool is_ready(const struct run *run, const struct queue *queue)
{
    const struct instr *head = head_of(run, queue);
    return head && (head->after == NO_INSTR || run->done[stage_of(run, queue)][head->after]);
}

static void look_at(struct run *run, struct queue *queue)
{
    if (queue->is_pending || queue->head == queue->count)
        return;
    queue->is_pending = true;
    run->stack[run->depth++] = queue;
}

/* Finishes the head and puts all lanes of the stage on the stack, as any of them may have waited
 * for it. */
static void finish(struct run *run, struct queue *queue)
{
    int stage = stage_of(run, queue);
    run->done[stage][queue->at[queue->head++]] = true;
    for (int lane = 0; lane < NUM_ALL_LANES; lane++)
        look_at(run, queue_of(run, stage, (enum lane)lane));
}

static bool fail_mismatch(struct run *run, const struct queue *queue, const struct instr *head,
                          const struct instr *far)
{
    struct text text = { 0 };
    char where[64];
    snprintf(where, sizeof where, "stage %d, instruction %d", stage_of(run, queue),
             queue->at[queue->head]);
    instr_write(head, &text);
    text_add(&text, " meets ");
    instr_write(far, &text);
    err_set(run->err, ERR_INPUT, where,
            "%s of stage %d; a link's messages must be sent and received in the same order",
            text_get(&text), head->peer);
    text_release(&text);
    return false;
}

/* Finishes a send and its receive if both are heads. Messages of a link keep their order, so two
 * heads that do not match never will; only on the data lane the other head may be an instruction
 * without a message, which finishes first. */
static bool meet_peer(struct run *run, struct queue *queue)
{
    const struct instr *head = head_of(run, queue);
    enum opcode op = instr_far_opcode(head->op);
    struct queue *far_queue = queue_of(run, head->peer, lane_far(instr_lane(head)));
    const struct instr *far = head_of(run, far_queue);
    if (far && far->peer != stage_of(run, queue))
        far = NULL;
    if (far && head->op != INSTR_REDUCE_TIED &&
        (far->chunk != head->chunk || far->microbatch != head->microbatch))
        return fail_mismatch(run, queue, head, far);
    if (far && far->op == op && is_ready(run, far_queue)) {
        finish(run, far_queue);
        finish(run, queue);
    }
    return true;
}

static void meet_all(struct run *run, struct queue *queue)
{
    int num_stages = run->schedule->shape.num_stages;
    if (queue->is_counted)
        return;
    queue->is_counted = true;
    if (++run->at_norm < num_stages)
        return;
    for (int stage = 0; stage < num_stages; stage++)
        finish(run, queue_of(run, stage, LANE_DATA));
}

static bool step(struct run *run, struct queue *queue)
{
    if (!is_ready(run, queue))
        return true;
    const struct instr *head = head_of(run, queue);
    if (head->peer != -1)
        return meet_peer(run, queue);
    if (head->op == INSTR_NORM_GRAD)
        meet_all(run, queue);
    else
        finish(run, queue);
    return true;
}

/* The first unfinished instruction of a stage's list. All instructions of its own stage that it
 * depends on have finished. */
static int first_unfinished(const struct run *run, int stage)
{
    int count = run->schedule->ranks[stage].count;
    for (int i = 0; i < count; i++)
        if (!run->done[stage][i])
            return i;
    return NO_INSTR;
}

static bool fail_if_left(struct run *run)
{
    struct text text = { 0 };
    char where[64] = "";
    for (int stage = 0; stage < run->schedule->shape.num_stages; stage++) {
        int i = first_unfinished(run, stage);
        if (i == NO_INSTR)
            continue;
        if (where[0] == '\0')
            snprintf(where, sizeof where, "stage %d, instruction %d", stage, i);
        text_add(&text, "%sstage %d waits in ", text.length ? ", " : "", stage);
        instr_write(&run->schedule->ranks[stage].at[i], &text);
    }
    bool ok = where[0] == '\0' || err_set(run->err, ERR_INPUT, where, "deadlock: %.200s%s",
                                          text_get(&text), text.length > 200 ? " ..." : "");
    text_release(&text);
    return ok;
}

static void fill_queues(struct run *run, int stage, struct arena *scratch)
{
    const struct instrs *list = &run->schedule->ranks[stage];
    for (int i = 0; i < list->count; i++)
        queue_of(run, stage, instr_lane(&list->at[i]))->count++;
    for (int lane = 0; lane < NUM_ALL_LANES; lane++) {
        struct queue *queue = queue_of(run, stage, (enum lane)lane);
        queue->at = ARENA_ARRAY(scratch, int, (size_t)queue->count);
        queue->count = 0;
    }
    for (int i = 0; i < list->count; i++) {
        struct queue *queue = queue_of(run, stage, instr_lane(&list->at[i]));
        queue->at[queue->count++] = i;
    }
    run->done[stage] = ARENA_ARRAY(scratch, bool, (size_t)list->count);
    for (int lane = 0; lane < NUM_ALL_LANES; lane++)
        look_at(run, queue_of(run, stage, (enum lane)lane));
}

bool schedule_finishes(const struct schedule *schedule, struct arena *scratch, struct err *err)
{
    size_t num_stages = (size_t)schedule->shape.num_stages;
    struct run run = { .schedule = schedule, .err = err };
    run.queues = ARENA_ARRAY(scratch, struct queue, num_stages * NUM_ALL_LANES);
    run.stack = ARENA_ARRAY(scratch, struct queue *, num_stages * NUM_ALL_LANES);
    run.done = ARENA_ARRAY(scratch, bool *, num_stages);
    for (int stage = 0; stage < schedule->shape.num_stages; stage++)
        fill_queues(&run, stage, scratch);
    while (run.depth > 0) {
        struct queue *queue = run.stack[--run.depth];
        queue->is_pending = false;
        if (!step(&run, queue))
            return false;
    }
    return fail_if_left(&run);
}
