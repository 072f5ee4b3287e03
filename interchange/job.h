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
    /* What the stack overlaps where the plan does not say: bit set of enum plan_overlap. */
    unsigned usual_overlaps;
    bool flash_default;  /* what the stack's absent attn= means */
    bool one_connection; /* GPUs before Blackwell: CUDA_DEVICE_MAX_CONNECTIONS matters */
};

/* A job of defaults, with the habits of this software on this GPU. */
struct job job_begin(const struct stack *stack, const struct gpu *gpu);

/* What the job overlaps: the plan's own words, else the stack's. */
static inline unsigned job_overlaps(const struct job *job)
{
    return job->plan.overlaps_given ? job->plan.overlaps : job->usual_overlaps;
}

/* Gives the plan these overlaps, without the word overlap= where the stack's own differ only in
 * what this plan has none of (gathers of parameters without ZeRO). */
void job_set_overlaps(struct job *job, unsigned overlaps);

/* Takes words out of the plan that say nothing of it: how context ranks share keys where there are
 * none, what overlaps where there is nothing to. */
void job_tidy(struct job *job);

/* Whether rank order, exchange and capacity are those of plan_default(), the only ones that most
 * frameworks have; else ERR_INFEASIBLE, where = the layout word. */
bool job_is_plain(const struct job *job, struct err *err);
/* Makes it so; optimizer, attention and overlaps too are then the framework's own. */
void job_make_plain(struct job *job);

/* The layers of each chunk, `count` of them, as the plan's: NULL where they are even. The array
 * must outlast the plan. */
void job_set_chunks(struct job *job, const int *layers, int count);

#endif
