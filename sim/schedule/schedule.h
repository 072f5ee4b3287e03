/* sim/schedule/schedule.h - the instruction lists of all pipeline ranks.
 *
 * Generators emit compute order only; schedule_lower inserts sends, receives, parameter gathers,
 * reductions and recompute, with their edges. One list per pipeline stage: data, tensor and context
 * peers of a stage share it. */
#ifndef SIM_SCHEDULE_SCHEDULE_H
#define SIM_SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "sim/schedule/instr.h"
#include "sim/schedule/placement.h"

struct instrs {
    struct instr *at;
    int count;
};

/* The shape a generator needs. */
struct schedule_shape {
    int num_stages;       /* pp */
    int chunks_per_stage; /* vpp */
    int num_microbatches; /* of each copy of the model */
    int group; /* of interleaving: microbatches that pass a chunk in a row; 0: the fewest allowed */
};

struct schedule {
    struct schedule_shape shape;
    const struct placement_rule *rule; /* as in struct placement */
    struct instrs *ranks;              /* num_stages lists, in the arena */
};

static inline struct placement schedule_placement(const struct schedule *schedule)
{
    const struct schedule_shape *shape = &schedule->shape;
    return (struct placement){ shape->num_stages, shape->chunks_per_stage, schedule->rule };
}

/* One way to order the compute of a step. Add yours to `generators` in generators.c. */
struct generator {
    const char *name;                  /* "1f1b": the layout grammar's word */
    const char *summary;               /* one sentence */
    const char *source;                /* where the order comes from */
    const struct placement_rule *rule; /* where its chunks are; as in struct placement */
    /* Whether it can order this shape; if not, `err` says why (ERR_INFEASIBLE). */
    bool (*accepts)(const struct schedule_shape *shape, struct err *err);
    /* The compute of one stage in order: FORWARD and BACKWARD of every chunk and microbatch, or,
     * when it splits the backward, FORWARD, and of some or all BACKWARD_INPUT and BACKWARD_WEIGHT;
     * `out` has room for them.
     */
    void (*emit)(const struct schedule_shape *shape, int stage, struct instrs *out);
    /* Most microbatch-chunks between their forward and the end of their backward on a stage, in
     * closed form. */
    int (*in_flight)(const struct schedule_shape *shape, int stage);
    /* How many of those belong to the stage's chunk in a round. NULL: one chunk per stage. */
    int (*of_round)(const struct schedule_shape *shape, int stage, int round);
    /* The most of the stage's chunk in a round at any time. NULL: as many as of_round. */
    int (*most_of_round)(const struct schedule_shape *shape, int stage, int round);
    /* At the peak, how many of those of each chunk wait only for BACKWARD_WEIGHT and need less
     * room. The BACKWARD_INPUT that follows adds one. NULL: the backward is not split. */
    int (*waiting)(const struct schedule_shape *shape, int stage);
    /* The number of backwards of the stage's chunk in a round that are paired with a forward of
     * the stage's other chunk. NULL: none, on no stage. */
    int (*pairs)(const struct schedule_shape *shape, int stage, int round);
};
extern const struct generator generators[];
extern const int num_generators;
const struct generator *generator_find(const char *name); /* NULL: unknown */
bool generator_splits(const struct generator *generator); /* splits the backward */

/* At the stage's peak, the number of microbatches whose activations it holds for its chunk in a
 * round, in closed form; the tests count them from the list. */
int chunk_in_flight(const struct generator *generator, const struct schedule_shape *shape,
                    int stage, int round);

/* The most microbatches it holds of that chunk at any time, not only at the stage's peak. */
int chunk_most_in_flight(const struct generator *generator, const struct schedule_shape *shape,
                         int stage, int round);

/* Microbatches that pass a chunk of a stage in a row where chunks are interleaved. */
int interleaved_group(const struct schedule_shape *shape);

/* By how many passes of its kind a stage receives the message for a pass sooner than others. A
 * message from the other end of the pipeline is there early where more than pp microbatches pass a
 * chunk in a row, and is received when it is made, as in Megatron-LM. 0: no sooner. */
int schedule_lead(const struct schedule *schedule, int stage, const struct instr *pass);

/* What lowering adds to compute order. */
struct lowering {
    bool recompute;      /* RECOMPUTE before each BACKWARD or BACKWARD_INPUT */
    bool has_data_group; /* gradients are summed over ranks: REDUCE_GRAD after a chunk's last
                            BACKWARD or BACKWARD_WEIGHT */
    bool gather_updated; /* ZeRO-1/2: GATHER_PARAM after OPTIMIZER */
    bool mix_beside; /* MIX_PARAM beside the step's passes: it averages the initial weights, or sums
                        the gradients of the step before */
    bool mix_updated; /* MIX_PARAM after OPTIMIZER */
    bool tied;        /* first and last stage all-reduce the embedding gradient */
};

/* Compute order of every stage, lowered. NULL with ERR_INFEASIBLE when the generator refuses. */
struct schedule *schedule_new(const struct generator *generator, const struct schedule_shape *shape,
                              const struct lowering *lowering, struct arena *arena,
                              struct err *err);
/* Compute order alone (no sends, no reductions). */
struct schedule *schedule_compute_order(const struct generator *generator,
                                        const struct schedule_shape *shape, struct arena *arena,
                                        struct err *err);

/* Text form, one line per stage: "0: F0.0 SA0.0>1@0 F0.1 ... B0.0@7 ...": opcode, chunk.microbatch,
 * >peer or <peer (from), & (the first of a pair), @after. schedule_parse is its exact inverse (the
 * shape is that of the highest chunk and microbatch); where = "line N". */
void schedule_write(const struct schedule *schedule, struct text *out);
struct schedule *schedule_parse(const char *text, struct arena *arena, struct err *err);

/* Proves a lowered schedule well-formed (sim/schedule/check.c): each chunk and microbatch runs
 * forward once, then backward once (whole, or inputs before weights), on its own stage; pairs are
 * of two chunks; sends match receives in order on each directed link; `after` names earlier
 * instructions; receives posted at most one compute ahead; parameters are gathered before use, at
 * most one chunk ahead, and freed; reductions follow the backwards that they reduce, on mirrored
 * stages in one order, then the tied reduction, the norm and the update; parameters are averaged
 * once, all before the update ends or all after it; and free of deadlock when no send completes
 * before its receive is posted (zero buffers), lanes of a rank running in order. where = "stage S,
 * instruction I", or "stage S" when one is missing. */
bool schedule_check(const struct schedule *schedule, struct err *err);

/* Most chunk activations alive at once on a stage, counted from its list; with a split backward
 * they live until the weight gradients are done. */
int schedule_in_flight(const struct schedule *schedule, int stage);

/* The peak bytes of those: `whole_bytes` each from forward to input gradients, `waiting_bytes` from
 * there to weight gradients. */
double schedule_held_bytes(const struct schedule *schedule, int stage, double whole_bytes,
                           double waiting_bytes);

#endif
