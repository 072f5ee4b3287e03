/* sim/engine/evaluation.h - one plan under evaluation. Several files of this folder each compute
 * one kind of its times: chunks, pairs, messages, tails. */
#ifndef SIM_ENGINE_EVALUATION_H
#define SIM_ENGINE_EVALUATION_H

#include "sim/cost/group_links.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/pipeline.h"
#include "sim/engine/step_cost.h"
#include "sim/engine/time_parts.h"
#include "sim/memory/memory_input.h"
#include "sim/plan/holding.h"

struct evaluation {
    const struct system *system;
    const struct model *model;
    /* the plan that is timed; for a mirrored plan, the equivalent one with half the stages
     * (sim/plan/fold.h) */
    const struct plan *plan;
    const struct plan *given; /* the plan as it was given */
    const struct pieces *pieces;
    /* [stage]: pieces (layers, embedding, head), with the modules that selective recompute repeats
     * on the stage; NULL: `pieces` for all stages */
    const struct pieces *const *stage_pieces;
    const struct generator *generator;
    int num_microbatches;
    double slowdown; /* factor on compute times: synchronous ranks wait for the slowest chip */
    bool blocking;   /* whether compute waits for messages */
    bool validates;  /* whether a stage starts its update without waiting for the gradient norm of
                        all stages */
    struct data_groups data, expert_data; /* expert_data is set only for models with experts */
    /* [stage]: boundary to the next stage; the last entry leads to the first */
    struct boundary *boundaries;
    /* with several chunks per stage: how much longer the messages between the last two chunks take
     * than other messages over the same boundary */
    double last_more_s;
    int *lists;         /* scratch memory, two numbers for each chunk */
    double *duration_s; /* [CHUNK_PASSES x chunk + pass]; CHUNK_WEIGHT is 0 in a whole backward */
    /* [chunk], if the schedule runs a forward and a backward as a pair: the time of the pair that
     * the chunk's backward belongs to, and the time that the pair saves compared with running its
     * two passes one after the other. */
    double *pair_s, *spared_s;
};

/* Whether each stage stands for two stages of the given plan. */
static inline bool evaluation_is_folded(const struct evaluation *w)
{
    return w->given != w->plan;
}

/* For a folded plan, the index in `boundaries` of the boundary between the two middle stages of the
 * given plan. The folded plan itself has no such message, and none between its last stage and the
 * first. */
static inline int evaluation_turn(const struct evaluation *w)
{
    return w->plan->pp - 1;
}

/* The evaluation of the plan in which all stages recompute what `stage` recomputes. If the plan
 * lists recomputed modules by stage (plan_lists_parts), the other plan is written to `plan`. Passes
 * and memory of a stage depend on its own recompute only. */
static inline struct evaluation evaluation_of_stage(const struct evaluation *w, int stage,
                                                    struct plan *plan)
{
    struct evaluation own = *w;
    if (!plan_lists_parts(w->plan))
        return own;
    *plan = plan_of_stage(w->plan, stage);
    own.plan = plan;
    own.pieces = w->stage_pieces ? w->stage_pieces[stage] : w->pieces;
    own.stage_pieces = NULL;
    return own;
}

static inline int evaluation_chunk(const struct evaluation *w, int stage, int round)
{
    return placement_chunk(plan_placement(w->plan), stage, round);
}

/* sim/engine/pair.c - evaluation_time_pairs times the pairs after all chunks were timed,
 * evaluation_time_pairs_of those of a stage after its chunks were timed.
 * evaluation_spared_by_pairs_s is the time that pairs save on a stage in a step,
 * evaluation_spared_beside_s the time that one forward and one backward save when their layers run
 * together. evaluation_expert_comm_s is the exposed time of the experts' rows in a pass over a
 * chunk. */
void evaluation_time_pairs(struct evaluation *w);
void evaluation_time_pairs_of(struct evaluation *w, int stage);
double evaluation_spared_by_pairs_s(const struct evaluation *w, int stage);
double evaluation_spared_beside_s(const struct evaluation *w, double compute_s, double comm_s,
                                  double layers);
double evaluation_expert_comm_s(const struct evaluation *w, const struct holding *held,
                                bool is_forward);

/* sim/engine/message.c - fill_boundaries fills plan->pp boundaries, in an array with room for those
 * of the given plan, and returns last_more_s. evaluation_given_boundaries fills given->pp of them.
 * evaluation_messages gives a chunk's messages, down (activations) and up (gradients). */
double fill_boundaries(const struct evaluation *w, struct boundary *boundaries);
void evaluation_given_boundaries(const struct evaluation *w, struct boundary *boundaries);
/* The lag of a non-blocking message over the boundary after a stage. */
double evaluation_lag_s(const struct evaluation *w, int stage);
struct chunk_messages {
    double down_s, up_s;
};
struct chunk_messages evaluation_messages(const struct evaluation *w, int chunk);
/* The time that messages add to the chunk's passes. It is 0 unless messages block the sending
 * stage's compute. */
static inline struct chunk_messages blocking_messages(const struct evaluation *w, int chunk)
{
    return w->blocking ? evaluation_messages(w, chunk) : (struct chunk_messages){ 0 };
}

/* sim/engine/tail.c - time of the reductions and gathers of `weights` with all-reduce; experts'
 * weights use groups of their own. */
struct data_comm evaluation_data_comm(const struct evaluation *w, struct stage_weights weights);

/* sim/engine/piece_buckets.c - whether the executor's last backward reduces whole gradients piece
 * by piece, and the exposed part of these reductions if that backward takes `window_s`. */
bool evaluation_reduces_pieces(const struct evaluation *w);
double evaluation_piece_buckets_s(const struct evaluation *w, double window_s);

/* sim/engine/chunk.c - one chunk and microbatch: its durations, and the time parts that they
 * consist of, without messages. */
struct chunk_time {
    double forward_s;
    double backward_s; /* only input gradients if the schedule splits the backward */
    double weight_s;   /* weight gradients if the schedule splits the backward, else 0 */
    struct time_parts parts;
};
struct chunk_time chunk_time(const struct evaluation *of, int chunk);
/* Additional time of the pass that computes a chunk's weight gradients if it is launched op by op,
 * because it contains collectives, instead of like the other passes. */
double evaluation_op_by_op_s(const struct evaluation *of, int chunk);
static inline void evaluation_keep_time(struct evaluation *w, int chunk,
                                        const struct chunk_time *time)
{
    struct chunk_messages messages = blocking_messages(w, chunk);
    double *duration_s = &w->duration_s[CHUNK_PASSES * chunk];
    duration_s[CHUNK_FORWARD] = time->forward_s + messages.down_s;
    duration_s[CHUNK_BACKWARD] = time->backward_s + messages.up_s;
    duration_s[CHUNK_WEIGHT] = time->weight_s;
}

/* Memory time that the executor needs for whole gradients, in addition to the reduction. It clears
 * them before the backwards that compute them, then adds the reduced shard to the sum with two
 * reads and a write. */
double evaluation_whole_gradients_s(const struct evaluation *w, double parameters);

/* sim/engine/tail.c - times that a stage adds once per step: exposed data-parallel transfers, and
 * the optimizer. */
struct stage_tail {
    double data_comm_s; /* tied + exposed reduce + exposed gather */
    double optimizer_s;
    double offload_s; /* exposed copies of an optimizer on the host */
    double tied_s;
    double reduce_s; /* reduction of gradients after their chunks' backwards; 0 for ZeRO-2 and 3 */
    double visible_reduce_s, visible_gather_s;
    double mix_s, visible_mix_s; /* averaging weights with data peers, and its exposed part */
};
struct stage_tail stage_tail(const struct evaluation *w, int stage);
/* Seconds of all passes of a stage in a step, with the messages that they wait for. */
double evaluation_passes_s(const struct evaluation *w, int stage);

/* sim/engine/step_overhead.c - a step's fixed cost: host overhead, waiting for longer documents and
 * a reference model's forwards, minus saved waiting. Profiles were measured with all-reduce, so
 * passes contain the waiting for all data ranks. A gradient exchange that does not wait for all of
 * them saves a part of this time. */
double evaluation_once_s(const struct evaluation *w);
/* sim/engine/packing.c - a further part of the fixed cost: waiting for ranks with longer documents.
 * It assumes an even division of layers over stages, so it does not depend on the plan's
 * division. */
double evaluation_packing_s(const struct evaluation *w);
/* sim/engine/step_overhead.c - two further parts: the waiting that is saved (it is subtracted), and
 * the forwards of a reference model over the batch. */
double evaluation_spared_s(const struct evaluation *w);
double evaluation_reference_s(const struct evaluation *w);

/* sim/engine/bound.c - a lower bound of the step over all orders of the plan's passes, in closed
 * form: a few additions per stage. */
double evaluation_bound_s(const struct evaluation *w);
/* The same bound for any ZeRO stage. The chunks must have been timed with zero 0, which adds no
 * time to passes. */
double evaluation_floor_s(const struct evaluation *w);
/* A lower bound of evaluation_floor_s for any division of the same layers over stages; it needs no
 * times of chunks. 0 if there is none. */
double evaluation_mean_floor_s(const struct evaluation *w);
/* A lower bound of evaluation_mean_floor_s that also holds for other numbers of chunks. */
double evaluation_chunks_floor_s(const struct evaluation *w);
/* The bound of evaluation_chunks_floor_s without messages, so for any rank order. */
double evaluation_compute_floor_s(const struct evaluation *w);
/* A lower bound of the time that each further layer adds to a microbatch's passes on a stage. */
double evaluation_layer_floor_s(const struct evaluation *w);

/* sim/engine/plan_cost.c - the durations and tails of an evaluation, by instruction, for the event
 * engine. */
struct step_cost evaluation_cost(const struct evaluation *w, struct arena *arena);

/* sim/engine/prediction.c - the input of the memory model, without times. */
struct memory_input evaluation_memory(const struct evaluation *w);

#endif
