/* interchange/job.h - a training job as other frameworks describe it: model, plan and GPUs.
 *
 * The model's seq and batch are those of the run. */
#ifndef INTERCHANGE_JOB_H
#define INTERCHANGE_JOB_H

#include "models/model.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct job {
    struct model model; /* layers 0: the file describes no model */
    struct plan plan;   /* arrays are in the arena of whoever filled it in */
    int num_gpus;       /* 0: not stated */
    int gpus_per_node;  /* 0: not stated */
    /* Bit set of enum plan_overlap: the stack's own overlaps, for plans without overlap=. */
    unsigned usual_overlaps;
    bool flash_default;  /* the stack's attention is fused where attn= is absent */
    bool one_connection; /* GPUs before Blackwell: CUDA_DEVICE_MAX_CONNECTIONS matters */
};

/* A job with default values and the defaults of this stack on this GPU. */
struct job job_begin(const struct stack *stack, const struct gpu *gpu);

/* The data ranks that the plan's other degrees leave of the GPUs, rounded down; 0: none. */
int job_data_ranks(const struct job *job);

/* The plan's own overlaps if it names them, else the stack's. */
static inline unsigned job_overlaps(const struct job *job)
{
    return job->plan.overlaps_given ? job->plan.overlaps : job->usual_overlaps;
}

/* Gives the plan these overlaps. The plan gets no overlap= where the stack's own overlaps differ
 * only in communication that the plan lacks (gathers of parameters without ZeRO). */
void job_set_overlaps(struct job *job, unsigned overlaps);

/* Removes words without effect from the plan: cp-comm= without context ranks, and overlaps of
 * absent communication. */
void job_tidy(struct job *job);

/* True if every axis with several ranks is one that other frameworks name, which are those of enum
 * axis_id; else ERR_INFEASIBLE, where = the layout word. */
bool job_has_named_axes(const struct job *job, struct err *err);

/* True if job_has_named_axes(), and rank order, exchange and capacity are those of plan_default(),
 * the only ones that most frameworks have; else ERR_INFEASIBLE, where = the layout word. */
bool job_is_plain(const struct job *job, struct err *err);
/* Sets rank order, exchange and capacity to plan_default()'s; also optimizer, attention and
 * overlaps.
 */
void job_make_plain(struct job *job);

/* Sets the layers of each of `count` chunks; an even division becomes NULL. The array must outlast
 * the plan. */
void job_set_chunks(struct job *job, const int *layers, int count);

#endif
