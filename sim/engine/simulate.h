/* sim/engine/simulate.h - predicts step time and memory of a plan for a model on a system.
 *
 * The search and the reports use the same evaluation. The search reads the step time and the memory
 * peak, the reports also their parts. */
#ifndef SIM_ENGINE_SIMULATE_H
#define SIM_ENGINE_SIMULATE_H

#include "base/err.h"
#include "sim/cost/group_links.h"
#include "sim/cost/hardware.h"
#include "sim/engine/pipeline.h"
#include "sim/engine/prediction.h"
#include "sim/engine/step_cost.h"
#include "sim/engine/time_parts.h"
#include "sim/memory/memory.h"
#include "sim/plan/plan.h"

/* Holds costs that plans share, and scratch space. Each worker has its own. */
struct evaluator;
struct evaluator *evaluator_new(const struct system *system, const struct model *model);
/* Switches to a system that differs from the present one only in the number of GPUs and in their
 * memory, so that cached costs of pieces (layers, embedding, head) still hold. Before this call the
 * caller may also change the number of layers of the model that evaluator_new got, if the kinds of
 * blocks stay the same and the routing is balanced. */
void evaluator_turn_to(struct evaluator *evaluator, const struct system *system);
/* Switches to any system for the same model. Costs of pieces are computed anew; the orders of
 * schedules, which depend on no cost, are kept. */
void evaluator_change_to(struct evaluator *evaluator, const struct system *system);
void evaluator_free(struct evaluator *evaluator);

/* The plan must have passed plan_check and system_check. The prediction borrows arrays of the
 * evaluator (struct prediction). */
struct prediction evaluate(struct evaluator *evaluator, const struct plan *plan);

/* idle_s[stage]: the time that each of plan->pp stages waits in the step for passes, messages and
 * reductions of others. The busiest stage's value is the prediction's bubble_s. */
void evaluate_idle(struct evaluator *evaluator, const struct plan *plan, double *idle_s);

/* Single numbers of the same prediction, for ranking plans; the peak is much cheaper than the
 * time. */
double evaluate_peak_bytes(struct evaluator *evaluator, const struct plan *plan);
/* Like evaluate_peak_bytes, but it may change the plan. If the peak is over `most_bytes` and every
 * layer is recomputed in full, the plan becomes full:K (one checkpoint per K layers). K grows from
 * 2 until the peak is at most `most_bytes`, or until it falls no further. The step time does not
 * change. */
double evaluate_fitting_bytes(struct evaluator *evaluator, struct plan *plan, double most_bytes);
/* Lower bounds of evaluate_peak_bytes for each set of modules that a plan with selective recompute
 * may repeat (sets_least_bytes). Valid until the next call. */
const struct sets_memory *evaluate_sets_memory(struct evaluator *evaluator,
                                               const struct plan *plan);
double evaluate_step_s(struct evaluator *evaluator, const struct plan *plan);
/* Seconds of all passes of a step, from the first to the last of any stage. More layers in any
 * chunk never take less time, so for a model with one kind of layers this is a lower bound for
 * every plan with at least as many layers in each chunk; the plan's layers need not be those of the
 * model. */
double evaluate_passes_s(struct evaluator *evaluator, const struct plan *plan);

/* A lower bound of evaluate_step_s of the same plan, found without timing its pipeline. */
double evaluate_bound_s(struct evaluator *evaluator, const struct plan *plan);

/* A lower bound of evaluate_step_s for every plan that differs only in its ZeRO stage or in that it
 * recomputes more. */
double evaluate_floor_s(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_floor_s from the time of all layers, averaged over the stages. It is
 * much cheaper. 0: there is none. */
double evaluate_work_floor_s(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of the time that each layer, of any kind, adds to one microbatch's forward and
 * backward on a stage. */
double evaluate_layer_floor_s(struct evaluator *evaluator, const struct plan *plan);

/* A list of rank orders (plan.order). There is room for one given order and for all orders of at
 * most MAX_AXES - 1 axes: the expert axis is not ordered, as its ranks are among the data ranks. */
enum { MAX_RANK_ORDERS = 5 * 4 * 3 * 2 + 1 };
struct rank_orders {
    int (*at)[MAX_AXES];
    int count;
};

/* Lower bounds that hold for any rank order. evaluate_unplaced_bytes: a lower bound of
 * evaluate_peak_bytes of plans that differ only in the order. evaluate_unplaced_floor_s: a lower
 * bound of evaluate_step_s of plans with any of these orders that otherwise differ only in their
 * ZeRO stage or in that they recompute more. */
double evaluate_unplaced_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_unplaced_bytes that also holds for plans with another division into
 * chunks or with other recompute. */
double evaluate_state_floor_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_peak_bytes for any rank order, from the first stage alone. For full
 * recompute it also holds with any full:K. */
double evaluate_first_stage_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_peak_bytes for any rank order and any full:K in place of full. */
double evaluate_least_grouped_bytes(struct evaluator *evaluator, const struct plan *plan);
/* A lower bound of evaluate_unplaced_bytes for a plan with selective recompute of any set of the
 * model's modules. */
double evaluate_leanest_bytes(struct evaluator *evaluator, const struct plan *plan);
double evaluate_unplaced_floor_s(struct evaluator *evaluator, const struct plan *plan,
                                 const struct rank_orders *orders);
/* A lower bound of evaluate_unplaced_floor_s, computed as evaluate_work_floor_s is from
 * evaluate_floor_s. */
double evaluate_unplaced_work_floor_s(struct evaluator *evaluator, const struct plan *plan,
                                      const struct rank_orders *orders);
/* A lower bound of evaluate_work_floor_s of all plans that differ only in their chunks and in the
 * place of modules for later tokens. With `orders` (NULL: the plan's own order) it is a lower bound
 * of evaluate_unplaced_work_floor_s. */
double evaluate_block_floor_s(struct evaluator *evaluator, const struct plan *plan,
                              const struct rank_orders *orders);
/* A lower bound of evaluate_block_floor_s in any rank order. It counts no messages, so the costs of
 * pieces in one order suffice to compute it. */
double evaluate_compute_floor_s(struct evaluator *evaluator, const struct plan *plan);

/* A lower bound of a step's fixed cost if the passes of one microbatch take at most `passes_s` on
 * every stage. The fixed cost is the host overhead and the waiting for ranks with longer documents,
 * minus the time that is saved if a gradient exchange does not wait for all data ranks. */
double evaluate_least_once_s(struct evaluator *evaluator, const struct plan *plan, double passes_s);

/* A stage's share of the layers, in a plan with one chunk per stage. The functions below return the
 * values of evaluate() for a stage with this share. With recompute block:N, `recomputed` replaces
 * N; in a plan that lists the recomputed modules of each stage (plan_lists_parts) it is the stage's
 * set of modules. The lists in the plan are not read. */
struct stage_share {
    int stage, layers;
    int recomputed; /* with block:N at most `layers`; not read with other recompute */
    /* number of layers on earlier stages; read if the model has several kinds of blocks */
    int first_layer;
};
struct stage_score {
    double forward_s, backward_s, weight_s; /* per microbatch, blocking messages included */
    double data_comm_s;                     /* once per step, after its last backward */
    /* once per step, with copies to a host optimizer; the step counts the longest of all stages */
    double optimizer_s;
    double memory_bytes; /* the stage's total_bytes at its peak */
    double lag_s; /* from the end of a pass to the start of its successor on the next stage */
};
struct stage_score evaluate_stage(struct evaluator *evaluator, const struct plan *plan,
                                  const struct stage_share *share);

/* Scores of hundreds of shares of one plan are computed in two steps. The first step computes the
 * values that are the same for all stages (groups of ranks and their buffers). */
struct stage_common {
    struct data_groups data, expert_data;
    const struct boundary *boundaries; /* in the arena */
    double last_more_s;                /* as in struct step_cost */
    bool blocking;
    bool validates; /* no stage waits for the gradient norm of all stages */
    struct stage_memory memory;
};
struct stage_common evaluate_stage_common(struct evaluator *evaluator, const struct plan *plan,
                                          struct arena *arena);
struct stage_score evaluate_stage_with(struct evaluator *evaluator, const struct plan *plan,
                                       const struct stage_common *common,
                                       const struct stage_share *share);
/* Only memory_bytes of the score, which is much cheaper. */
double evaluate_stage_bytes(struct evaluator *evaluator, const struct plan *plan,
                            const struct stage_common *common, const struct stage_share *share);

/* The score of a stage with any number of chunks. The plan lists the layers of all its chunks; of
 * other stages' chunks only the number of layers before a chunk matters, and that only if the model
 * has several kinds of blocks. The schedule must not be mirrored. duration_s[CHUNK_PASSES x round +
 * pass] becomes the seconds of each pass of the stage's chunks, blocking messages included. */
struct rounds_score {
    double spared_s; /* time that a step saves by running forwards and backwards in pairs */
    double data_comm_s, optimizer_s; /* as in struct stage_score */
};
struct rounds_score evaluate_rounds_with(struct evaluator *evaluator, const struct plan *plan,
                                         const struct stage_common *common, int stage,
                                         double *duration_s);
/* Only the durations; returns spared_s. */
double evaluate_rounds_passes(struct evaluator *evaluator, const struct plan *plan,
                              const struct stage_common *common, int stage, double *duration_s);
double evaluate_rounds_bytes(struct evaluator *evaluator, const struct plan *plan,
                             const struct stage_common *common, int stage);
/* One chunk alone: CHUNK_PASSES durations. */
void evaluate_chunk_with(struct evaluator *evaluator, const struct plan *plan,
                         const struct stage_common *common, int chunk, double *duration_s);

/* The cost of each instruction of the plan's lowered schedule, for events_run: the durations that
 * evaluate uses, by instruction. Arrays in the arena. */
struct step_cost evaluate_cost(struct evaluator *evaluator, const struct plan *plan,
                               struct arena *arena);

/* Checks what plan_check cannot, as it does not know the system: the GPU supports the precision, cp
 * has flash attention, a network connects the nodes, and system_has_rate. */
bool system_check(const struct system *system, const struct plan *plan, struct err *err);

/* Only the last check of system_check: false if no profile of the GPU exists, or if the rate of the
 * plan's products in fewer than 16 bits was not measured. Then the plan's memory can be predicted,
 * but not its time. */
bool system_has_rate(const struct system *system, const struct plan *plan, struct err *err);

#endif
