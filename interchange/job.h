/* interchange/job.h - a training job as it is exchanged with other frameworks: model, plan and
 * GPUs.
 *
 * The model's seq and batch are those of the run. */
#ifndef INTERCHANGE_JOB_H
#define INTERCHANGE_JOB_H

#include "models/model.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct job {
    struct model model; /* layers 0: the file describes no model */
    struct plan plan;   /* its arrays belong to the arena of the function that filled it in */
    int num_gpus;       /* 0: not stated */
    int gpus_per_node;  /* 0: not stated */
    /* Bit set of enum plan_overlap: the stack's own overlaps, for plans without overlap=. */
    unsigned usual_overlaps;
    bool flash_default;  /* the stack uses fused attention if attn= is absent */
    bool one_connection; /* GPUs before Blackwell: CUDA_DEVICE_MAX_CONNECTIONS matters */
};

/* A job with default values and the defaults of this stack on this GPU. */
struct job job_begin(const struct stack *stack, const struct gpu *gpu);

/* The number of GPUs divided by the degrees of all other axes of the plan, rounded down. */
int job_data_ranks(const struct job *job);

/* The overlaps that the plan names, else the stack's. */
static inline unsigned job_overlaps(const struct job *job)
{
    return job->plan.overlaps_given ? job->plan.overlaps : job->usual_overlaps;
}

/* Sets the plan's overlaps. It adds no overlap= if the stack's overlaps differ only in
 * communication that the plan lacks (gathers of parameters without ZeRO). */
void job_set_overlaps(struct job *job, unsigned overlaps);

/* Removes words without effect from the plan: cp-comm= without context ranks, and overlaps of
 * absent communication. */
void job_tidy(struct job *job);

/* True if every axis with several ranks is one of enum axis_id, which other frameworks have too;
 * else ERR_INFEASIBLE, where = the layout word. */
bool job_has_named_axes(const struct job *job, struct err *err);

/* True if job_has_named_axes(), and rank order, exchange and capacity are those of plan_default(),
 * the only values that most frameworks support; else ERR_INFEASIBLE, where = the layout word. */
bool job_is_plain(const struct job *job, struct err *err);
/* Sets rank order, exchange, capacity, optimizer, attention and overlaps to those of
 * plan_default(). */
void job_make_plain(struct job *job);

/* Sets the layers of each of `count` chunks; an even division becomes NULL. The array must outlast
 * the plan. */
void job_set_chunks(struct job *job, const int *layers, int count);

#endif
