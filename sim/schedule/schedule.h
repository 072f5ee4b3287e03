/* sim/schedule/schedule.h - the instruction lists of all pipeline ranks.
 *
 * Generators emit only the order of compute instructions; lower.c inserts sends, receives,
 * parameter gathers, reductions and recompute, with their edges. There is one list per pipeline
 * stage, which all data, tensor and context ranks of the stage run. */
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

/* The numbers on which a schedule depends. */
struct schedule_shape {
    int num_stages;       /* pp */
    int chunks_per_stage; /* vpp */
    int num_microbatches; /* number per copy of the model */
    int group; /* interleaving: number of consecutive microbatches on one chunk; 0: the fewest
                  allowed */
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

/* One schedule: an order of a step's compute instructions. To add a schedule, add a row to
 * `generators` in generators.c. */
struct generator {
    const char *name;                  /* the value of schedule=, such as "1f1b" */
    const char *summary;               /* one sentence */
    const char *source;                /* paper or program that defines the order */
    const struct placement_rule *rule; /* on which stages its chunks are; as in struct placement */
    /* Whether the schedule exists for this shape; if not, `err` says why (ERR_INFEASIBLE). */
    bool (*accepts)(const struct schedule_shape *shape, struct err *err);
    /* Appends the compute instructions of one stage to `out`, which has room for them: for every
     * chunk and microbatch a FORWARD and a BACKWARD. A schedule that splits the backward emits
     * BACKWARD_INPUT and BACKWARD_WEIGHT in place of some or all BACKWARD instructions. */
    void (*emit)(const struct schedule_shape *shape, int stage, struct instrs *out);
    /* Peak number of microbatch-chunks on a stage that are between their forward and the end of
     * their backward, in closed form. */
    int (*in_flight)(const struct schedule_shape *shape, int stage);
    /* How many of the microbatch-chunks of in_flight() belong to the stage's chunk in a round.
     * NULL: one chunk per stage. */
    int (*of_round)(const struct schedule_shape *shape, int stage, int round);
    /* The largest number of microbatches in flight at any time, for the stage's chunk in a round.
     * NULL: the same as of_round. */
    int (*most_of_round)(const struct schedule_shape *shape, int stage, int round);
    /* For each chunk of a stage: how many of its microbatches in in_flight() wait only for
     * BACKWARD_WEIGHT, and so hold fewer activations. Right after the peak, a further
     * BACKWARD_INPUT makes it one more. NULL: the backward is not split. */
    int (*waiting)(const struct schedule_shape *shape, int stage);
    /* The number of backwards of the stage's chunk in a round that are paired with a forward of the
     * stage's other chunk. NULL: the schedule has no pairs. */
    int (*pairs)(const struct schedule_shape *shape, int stage, int round);
};
extern const struct generator generators[];
extern const int num_generators;
const struct generator *generator_find(const char *name); /* NULL if there is no such schedule */
/* whether the schedule splits the backward */
bool generator_splits(const struct generator *generator);

/* Number of microbatches whose activations a stage holds for its chunk in a round, at the stage's
 * peak. It is a closed form; the tests compare it with a count from the list. */
int chunk_in_flight(const struct generator *generator, const struct schedule_shape *shape,
                    int stage, int round);

/* The largest number of microbatches that the stage holds for that chunk at any time, not only at
 * the stage's peak. */
int chunk_most_in_flight(const struct generator *generator, const struct schedule_shape *shape,
                         int stage, int round);

/* With interleaving: number of consecutive microbatches that a stage runs on one chunk. */
int interleaved_group(const struct schedule_shape *shape);

/* How early the receive for a pass is posted, in passes of the same direction. If more than pp
 * consecutive microbatches run on one chunk, messages between the two ends of the pipeline are made
 * long before they are needed; they are received when they are made, as in Megatron-LM. 0: not
 * early. */
int schedule_lead(const struct schedule *schedule, int stage, const struct instr *pass);

/* Which instructions lowering adds to the compute order. */
struct lowering {
    bool recompute; /* RECOMPUTE before each BACKWARD or BACKWARD_INPUT */
    /* gradients are summed over ranks: REDUCE_GRAD follows a chunk's last BACKWARD or
     * BACKWARD_WEIGHT */
    bool has_data_group;
    bool gather_updated; /* ZeRO-1/2: GATHER_PARAM after OPTIMIZER */
    /* MIX_PARAM overlaps the step's passes: it averages the initial weights, or sums the
     * gradients of the step before */
    bool mix_beside;
    bool mix_updated; /* MIX_PARAM after OPTIMIZER */
    /* two stages all-reduce the embedding's gradient: the first chunk's stage and that of the last
     * chunk (tied_back 0) or of the chunk before the last (1) */
    bool tied;
    int tied_back;
};

/* The lowered lists of every stage. NULL with ERR_INFEASIBLE if the generator refuses the shape. */
struct schedule *schedule_new(const struct generator *generator, const struct schedule_shape *shape,
                              const struct lowering *lowering, struct arena *arena,
                              struct err *err);
/* The compute order alone, without sends and reductions. */
struct schedule *schedule_compute_order(const struct generator *generator,
                                        const struct schedule_shape *shape, struct arena *arena,
                                        struct err *err);

/* Text form, one line per stage: "0: F0.0 SA0.0>1@0 F0.1 ... B0.0@7 ...": opcode, chunk.microbatch,
 * >peer (to) or <peer (from), & (first of a pair), @after (index of an earlier instruction of the
 * stage that must have finished). schedule_parse is the exact inverse of schedule_write; it takes
 * the shape from the highest chunk and microbatch. An error's `where` is "line N". */
void schedule_write(const struct schedule *schedule, struct text *out);
struct schedule *schedule_parse(const char *text, struct arena *arena, struct err *err);

/* Checks that a lowered schedule is correct (sim/schedule/check.c):
 * - Each chunk runs each microbatch on its own stage, forward once, then backward once, either
 *   whole or input gradient before weight gradient. The passes of a pair are of two chunks.
 * - On each directed link sends match receives in order. `after` names earlier instructions. A
 *   receive is posted at the earliest when the compute instruction before its pass begins or, if
 *   schedule_lead() is not 0, when the pass of its direction schedule_lead() + 1 before begins.
 * - Updated parameters are gathered once per chunk.
 * - Reductions follow the backwards whose gradients they reduce, in the same order on mirrored
 *   stages. The tied reduction, the norm and the update follow them.
 * - Parameters are averaged once, either all before the update ends or all after it.
 * - There is no deadlock even if no send completes before its receive is posted. Each lane of a
 *   rank (sim/schedule/instr.h) runs its instructions in the order of the list.
 *
 * An error's `where` is "stage S, instruction I", or "stage S" if an instruction is missing. */
bool schedule_check(const struct schedule *schedule, struct err *err);

/* Peak number of microbatch-chunks whose activations a stage holds, counted from its list. With a
 * split backward, activations are held until the weight gradients are done. */
int schedule_in_flight(const struct schedule *schedule, int stage);

/* Peak bytes of the activations that a stage holds: per microbatch-chunk `whole_bytes` from the
 * forward to the input gradient, then `waiting_bytes` until the weight gradient. */
double schedule_held_bytes(const struct schedule *schedule, int stage, double whole_bytes,
                           double waiting_bytes);

#endif
