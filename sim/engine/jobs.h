/* sim/engine/jobs.h - the instructions of a rank, as jobs of its lanes. A lane runs its jobs one
 * after another: compute, the sends and receives of each direction, or the data-parallel exchange.
 *
 * A job waits until a lane of its rank has finished a given number of jobs. As lanes run in order,
 * no state per instruction is needed. The jobs of a lane are contiguous in memory. */
#ifndef SIM_ENGINE_JOBS_H
#define SIM_ENGINE_JOBS_H

#include "base/arena.h"
#include "sim/engine/step_cost.h"

#include <stdbool.h>

/* A condition that holds once `lane` has finished `count` jobs. */
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
    int head; /* index of the next job; those before are done */
    bool is_running;
    /* its head is the gradient norm and has been counted as waiting for the other stages */
    bool is_counted;
};

struct job_lanes {
    struct queue queues[NUM_ALL_LANES];
    unsigned wakes[NUM_ALL_LANES]; /* bit set of the lanes that may start a job when a job of this
                                      lane ends */
};

/* Splits a stage's list into lanes, with the additional waits of step_holds. The arrays are in the
 * arena. */
void job_lanes_fill(struct job_lanes *lanes, const struct step_cost *cost,
                    const struct schedule *schedule, int stage, struct arena *arena);

/* The next job; NULL if the lane is done. */
static inline const struct job *queue_head(const struct queue *queue)
{
    return queue->head < queue->count ? &queue->jobs[queue->head] : NULL;
}

static inline bool gate_is_open(const struct job_lanes *lanes, struct gate gate)
{
    return (unsigned)lanes->queues[gate.lane].head >= gate.count;
}

/* Whether the lane is idle and its next job does not wait for another lane of its rank. */
static inline bool queue_is_ready(const struct job_lanes *lanes, const struct queue *queue)
{
    const struct job *job = queue_head(queue);
    return job && !queue->is_running && gate_is_open(lanes, job->after) &&
           gate_is_open(lanes, job->held);
}

#endif
