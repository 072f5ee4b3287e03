/* sim/engine/jobs.h - the instructions of a rank as its lanes run them, side by side in memory.
 *
 * What a job waits for on its own rank is a number of jobs that a lane must have done: lanes run in
 * order, so nothing is kept for each instruction while a step runs. */
#ifndef SIM_ENGINE_JOBS_H
#define SIM_ENGINE_JOBS_H

#include "base/arena.h"
#include "sim/engine/step_cost.h"

#include <stdbool.h>

/* Open once `lane` has done so many jobs. */
struct gate {
    unsigned lane : 4, count : 28;
};

struct job {
    double alone_s;
    int instr; /* index in the rank's list */
    struct gate after, held;
    short peer;
    unsigned char op, wire;
};

/* The jobs of one lane, in order. */
struct queue {
    struct job *jobs;
    int count;
    int head; /* as many are done */
    bool is_running;
    bool is_counted; /* its head has arrived at the barrier of the norm */
};

struct job_lanes {
    struct queue queues[NUM_LANES];
    unsigned wakes[NUM_LANES]; /* a bit for each lane that an end on this one may let start */
};

/* Splits a stage's list into lanes, with the waits that step_holds names. Arrays in the arena. */
void job_lanes_fill(struct job_lanes *lanes, const struct step_cost *cost,
                    const struct schedule *schedule, int stage, struct arena *arena);

/* NULL when the lane is through. */
static inline const struct job *queue_head(const struct queue *queue)
{
    return queue->head < queue->count ? &queue->jobs[queue->head] : NULL;
}

static inline bool gate_is_open(const struct job_lanes *lanes, struct gate gate)
{
    return (unsigned)lanes->queues[gate.lane].head >= gate.count;
}

/* Idle, and nothing of its own rank keeps the head from starting. */
static inline bool queue_is_ready(const struct job_lanes *lanes, const struct queue *queue)
{
    const struct job *job = queue_head(queue);
    return job && !queue->is_running && gate_is_open(lanes, job->after) &&
           gate_is_open(lanes, job->held);
}

#endif
