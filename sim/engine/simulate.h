/* sim/engine/simulate.h - model + system + plan -> prediction.
 *
 * One evaluation serves search and report alike: the search reads the step time and the peak, the
 * report the parts of each. */
#ifndef SIM_ENGINE_SIMULATE_H
#define SIM_ENGINE_SIMULATE_H

#include "base/err.h"
#include "sim/cost/hardware.h"
#include "sim/cost/network.h"
#include "sim/engine/pipeline.h"
#include "sim/engine/prediction.h"
#include "sim/engine/step_cost.h"
#include "sim/engine/time_parts.h"
#include "sim/memory/memory.h"
#include "sim/plan/plan.h"

/* Caches what plans share, and holds scratch space; one per worker. */
struct evaluator;
struct evaluator *evaluator_new(const struct system *system, const struct model *model);
/* Switches to a system that differs from the first only in the number of GPUs and their memory, so
 * that cached costs of pieces still hold. Before this call the caller may
 * also change the number of layers of the model that evaluator_new got, if the kinds of blocks stay
 * the same and the routing is balanced. */
void evaluator_turn_to(struct evaluator *evaluator, const struct system *system);
void evaluator_free(struct evaluator *evaluator);

/* The plan must have passed plan_check and system_check. Borrowed arrays: see struct prediction. */
struct prediction evaluate(struct evaluator *evaluator, const struct plan *plan);

/* idle_s[stage]: how long each of plan->pp stages waits in that step for passes, messages and
 * reductions of others. The busiest stage's value is the prediction's bubble_s. */
void evaluate_idle(struct evaluator *evaluator, const struct plan *plan, double *idle_s);

/* Single numbers of the same prediction, for ranking plans; the peak is much cheaper than the
 * time. */
double evaluate_peak_bytes(struct evaluator *evaluator, const struct plan *plan);
/* evaluate_peak_bytes, but it may change the plan. If the peak is over `most_bytes` and every layer
 * is recomputed in full, the plan becomes full:K (one checkpoint per K layers). K grows from 2
 * until the peak is at most `most_bytes`, or until it falls no further. The step takes as long as
 * before.
 */
double evaluate_fitting_bytes(struct evaluator *evaluator, struct plan *plan, double most_bytes);
double evaluate_step_s(struct evaluator *evaluator, const struct plan *plan);

/* A lower bound of evaluate_step_s of the same plan, found without timing its pipeline. */
double evaluate_bound_s(struct evaluator *evaluator, const struct plan *plan);

/* A lower bound of evaluate_step_s for every plan that differs only in zero, or recomputes more. */
double evaluate_floor_s(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_floor_s from the time of all layers, averaged over the stages. It is
 * much cheaper. 0: there is none. */
double evaluate_work_floor_s(struct evaluator *evaluator, const struct plan *plan);

/* A list of rank orders (plan.order). There is room for all orders of the axes that are not
 * folded into others (experts into data), at most MAX_AXES - 1, and for one given order. */
enum { MAX_RANK_ORDERS = 5 * 4 * 3 * 2 + 1 };
struct rank_orders {
    int (*at)[MAX_AXES];
    int count;
};

/* The same bounds for any rank order. evaluate_unplaced_bytes: a lower bound of evaluate_peak_bytes
 * of plans that differ only in the order. evaluate_unplaced_floor_s: a lower bound of
 * evaluate_step_s of plans with any of these orders that otherwise differ only in zero or recompute
 * more. */
double evaluate_unplaced_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_unplaced_bytes that also holds for plans with another division into
 * chunks or with other recompute. */
double evaluate_state_floor_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_peak_bytes for any rank order, from the first stage alone. For full
 * recompute it also holds with any full:K. */
double evaluate_first_stage_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_peak_bytes for any rank order and any full:K in place of full. */
double evaluate_least_grouped_bytes(struct evaluator *evaluator, const struct plan *plan);
double evaluate_unplaced_floor_s(struct evaluator *evaluator, const struct plan *plan,
                                 const struct rank_orders *orders);

/* A lower bound of a step's fixed cost (host overhead minus the time that ranks save where an
 * exchange waits for fewer of them), when no stage's passes of a microbatch take longer than
 * `passes_s`. */
double evaluate_least_once_s(struct evaluator *evaluator, const struct plan *plan, double passes_s);

/* A stage's share of the layers, in a plan with one chunk per stage. The functions below give what
 * evaluate() gives for the stage if it has this share. With recompute block:N, `recomputed` takes
 * the place of N. The plan's own lists of layers are not read. */
struct stage_share {
    int stage, layers;
    int recomputed;  /* <= layers; read with RECOMPUTE_BLOCK only */
    int first_layer; /* layers on the stages before; read when the model has several kinds of blocks
                      */
};
struct stage_score {
    double forward_s, backward_s, weight_s; /* of one microbatch, blocking messages included */
    double data_comm_s;                     /* once, after its last backward */
    double optimizer_s;  /* once, with copies to a host optimizer; the step takes the longest of all
                            stages */
    double memory_bytes; /* the stage's total_bytes at its peak */
    double lag_s; /* from the end of a pass to the start of its successor on the next stage */
};
struct stage_score evaluate_stage(struct evaluator *evaluator, const struct plan *plan,
                                  const struct stage_share *share);

/* The same in two steps, for hundreds of shares of one plan: first what all stages share (groups of
 * ranks and their buffers), then the rest. */
struct stage_common {
    struct data_groups data, expert_data;
    const struct boundary *boundaries; /* in the arena */
    bool blocking;
    struct stage_memory memory;
};
struct stage_common evaluate_stage_common(struct evaluator *evaluator, const struct plan *plan,
                                          struct arena *arena);
struct stage_score evaluate_stage_with(struct evaluator *evaluator, const struct plan *plan,
                                       const struct stage_common *common,
                                       const struct stage_share *share);
/* memory_bytes alone, which is much cheaper. */
double evaluate_stage_bytes(struct evaluator *evaluator, const struct plan *plan,
                            const struct stage_common *common, const struct stage_share *share);

/* The cost of each instruction of the plan's lowered schedule, for events_run: the durations that
 * evaluate uses, by instruction. Arrays in the arena. */
struct step_cost evaluate_cost(struct evaluator *evaluator, const struct plan *plan,
                               struct arena *arena);

/* Checks what plan_check cannot: that the GPU supports the precision, and that a network joins the
 * nodes. */
bool system_check(const struct system *system, const struct plan *plan, struct err *err);

/* The last check of system_check alone: false when products of the plan's type have a peak but no
 * measured rate. Such a plan has a memory prediction but no time. */
bool system_has_rate(const struct system *system, const struct plan *plan, struct err *err);

#endif
