/* sim/engine/simulate.h - model + system + plan -> prediction.
 *
 * One evaluation serves search and report alike: the search reads the step time and the peak, the
 * report the parts that they were added from. */
#ifndef SIM_ENGINE_SIMULATE_H
#define SIM_ENGINE_SIMULATE_H

#include "base/err.h"
#include "sim/cost/hardware.h"
#include "sim/cost/memory.h"
#include "sim/cost/network.h"
#include "sim/engine/pipeline.h"
#include "sim/engine/step_cost.h"
#include "sim/engine/time_parts.h"
#include "sim/plan/plan.h"

struct prediction {
    bool fits;
    double step_s;
    double step_low_s, step_high_s; /* 90 % interval, of interval_half_width */
    double tokens_per_s;
    double mfu, hfu;
    double peak_memory_bytes;
    int peak_stage;
    int busiest_stage;
    int num_microbatches;
    struct time_parts time;
    int num_stages;
    struct stage_memory *stages; /* the evaluator's, until its next prediction */
};

/* Memo of what plans share, scratch space, one per worker. */
struct evaluator;
struct evaluator *evaluator_new(const struct system *system, const struct model *model);
/* From now on evaluates for a system that differs from its first in the job's GPUs and their memory
 * alone: what it knows of plans' pieces holds there too. */
void evaluator_turn_to(struct evaluator *evaluator, const struct system *system);
void evaluator_free(struct evaluator *evaluator);

/* The plan must have passed plan_check and system_check. Borrowed arrays: see struct prediction. */
struct prediction evaluate(struct evaluator *evaluator, const struct plan *plan);

/* What each of plan->pp stages waits in that step: for passes, messages and reductions of the
 * others. The busiest stage's is the prediction's bubble_s. */
void evaluate_idle(struct evaluator *evaluator, const struct plan *plan, double *idle_s);

/* Two numbers of the same prediction, for what only ranks plans; the peak is much the cheaper. */
double evaluate_peak_bytes(struct evaluator *evaluator, const struct plan *plan);
double evaluate_step_s(struct evaluator *evaluator, const struct plan *plan);

/* Never above evaluate_step_s of the same plan, without timing its pipeline. */
double evaluate_bound_s(struct evaluator *evaluator, const struct plan *plan);

/* Never above evaluate_step_s of a plan that differs in zero alone, or recomputes more: one bound
 * for a family of plans. */
double evaluate_floor_s(struct evaluator *evaluator, const struct plan *plan);

/* Rank orders, as plan.order: the 4! of the axes that have ranks of their own, and a given one. */
enum { MAX_RANK_ORDERS = 25 };
struct rank_orders {
    int (*at)[NUM_AXES];
    int count;
};

/* The same two bounds whatever the rank order: never above evaluate_peak_bytes of a plan that
 * differs in its order alone; and never above evaluate_step_s of one that has any of these orders,
 * and otherwise differs in zero alone or recomputes more. */
double evaluate_unplaced_bytes(struct evaluator *evaluator, const struct plan *plan);
double evaluate_unplaced_floor_s(struct evaluator *evaluator, const struct plan *plan,
                                 const struct rank_orders *orders);

/* Never above what a step of the plan has once, whatever its stages do (overhead of the host, less
 * waiting that an exchange spares it), where no stage's passes of a microbatch take longer. */
double evaluate_least_once_s(struct evaluator *evaluator, const struct plan *plan, double passes_s);

/* One stage of a plan of one chunk a stage, on its own: what the whole plan's evaluation would have
 * for it if its `stages=` gave it so many layers and, where its recompute is block:N, N of them
 * were run again; any other recompute holds as it stands. The plan's own lists are not read. */
struct stage_share {
    int stage, layers;
    int recomputed;  /* <= layers; read with RECOMPUTE_BLOCK only */
    int first_layer; /* those on stages before; read where the model's blocks are of several kinds
                      */
};
struct stage_score {
    double forward_s, backward_s, weight_s; /* of one microbatch, blocking messages included */
    double data_comm_s;                     /* once, after its last backward */
    double optimizer_s;  /* once, with copies to a host optimizer; the step has the longest */
    double memory_bytes; /* its total at the peak */
    double lag_s;        /* from the end of a pass to its successor's start on the next stage */
};
struct stage_score evaluate_stage(struct evaluator *evaluator, const struct plan *plan,
                                  const struct stage_share *share);

/* The same in two steps, for hundreds of shares of one plan: groups of ranks and what they hold
 * buffers for, which are all stages', and the rest. */
struct stage_common {
    struct data_groups data;
    const struct boundary *boundaries; /* in the arena */
    bool blocking;
    struct stage_memory memory;
};
struct stage_common evaluate_stage_common(struct evaluator *evaluator, const struct plan *plan,
                                          struct arena *arena);
struct stage_score evaluate_stage_with(struct evaluator *evaluator, const struct plan *plan,
                                       const struct stage_common *common,
                                       const struct stage_share *share);
/* memory_bytes alone, which is much the cheaper. */
double evaluate_stage_bytes(struct evaluator *evaluator, const struct plan *plan,
                            const struct stage_common *common, const struct stage_share *share);

/* What the instructions of the plan's lowered schedule take, for events_run: the durations that
 * evaluate reads, taken apart. Arrays in the arena. */
struct step_cost evaluate_cost(struct evaluator *evaluator, const struct plan *plan,
                               struct arena *arena);

/* What plan_check can't know: a precision that the GPU multiplies, a network that joins the nodes.
 */
bool system_check(const struct system *system, const struct plan *plan, struct err *err);

/* The last of it: false where products of the plan's type have a peak and no measured rate. Such a
 * plan has a memory and no time. */
bool system_has_rate(const struct system *system, const struct plan *plan, struct err *err);

#endif
