/* The steps of one pass over a chunk. A piece is a layer, the embedding or the head; a unit is a
 * piece's own parameters, or the vocabulary rows that it uses. A run is one computation of a piece:
 * forward, recompute or backward. */
#include "sim/plan/pass.h"

#include "sim/plan/holding.h"
#include "sim/plan/state_share.h"

/* Maximum number of steps per piece: two runs (recompute and backward), each with a gather, a drop,
 * an open, a reduce and a settle step for each of two units (pass.h). */
enum {
    MOST_UNITS = 2,
    MOST_RUNS_EACH = 2,
    MOST_STEPS_EACH = MOST_RUNS_EACH * (1 + 5 * MOST_UNITS)
};

const char *plan_capture_refusal(const struct plan *plan)
{
    if (plan->tp > 1)
        return "tensor ranks communicate within each pass";
    if (plan_gathers(plan))
        return "ZeRO-3 gathers parameters within each pass";
    if (plan_keeps_gathered(plan) || plan_keeps_sums(plan))
        return "ZeRO-2 and 3 allocate weights and gradients again in each step";
    return plan_reduces(plan) ? "ZeRO-2 reduces gradients within each pass" : NULL;
}

struct pass_chunk pass_chunk_of(const struct plan *plan, const struct model *model, int chunk,
                                int prefetch)
{
    struct holding held = chunk_holding(plan, model, chunk);
    return (struct pass_chunk){
        .layers = held.layers,
        .has_embedding = held.count[PIECE_EMBEDDING] > 0,
        .has_head = held.count[PIECE_HEAD] > 0,
        .is_tied = model->tied && placement_ends_meet(plan_placement(plan)),
        .recomputed = plan_recomputed_layers(plan, chunk, held.layers),
        .every = plan->recompute == RECOMPUTE_EVERY ? plan->recompute_every : 1,
        .gathers = plan_gathers(plan),
        .reduces = plan_reduces(plan),
        .keeps = plan_keeps_sums(plan),
        .prefetch = prefetch,
    };
}

int pass_pieces(const struct pass_chunk *chunk)
{
    return chunk->layers + chunk->has_embedding + chunk->has_head;
}

int pass_units(const struct pass_chunk *chunk)
{
    return MOST_UNITS * pass_pieces(chunk);
}

static bool is_embedding(const struct pass_chunk *chunk, int piece)
{
    return chunk->has_embedding && piece == 0;
}

int pass_vocabulary_unit_of(const struct pass_chunk *chunk, int piece)
{
    bool is_head = chunk->has_head && piece == pass_pieces(chunk) - 1;
    if (is_embedding(chunk, piece))
        return 1;
    if (!is_head)
        return -1;
    return chunk->is_tied && chunk->has_embedding ? 1 : pass_unit_of(piece) + 1;
}

/* --- runs ---------------------------------------------------------------------------------- */

struct run {
    enum step_op op;
    int piece;
};

struct builder {
    const struct pass_chunk *chunk;
    enum opcode op;
    struct run *runs;
    int num_runs;
    struct pass_steps out;
    int *gathered, num_gathered; /* units that are gathered now, in the order of gathering */
    int *reducing, num_reducing;
    int *wanted;   /* [unit] the last run known to use it, plus 1 */
    int *last_run; /* [unit] the last run that adds to its gradients; -1: none */
    bool *is_open; /* [unit] */
};

static int units_of(const struct pass_chunk *chunk, int piece, int units[MOST_UNITS])
{
    units[0] = pass_unit_of(piece);
    units[1] = pass_vocabulary_unit_of(chunk, piece);
    return units[1] < 0 ? 1 : 2;
}

static void add_run(struct builder *to, enum step_op op, int piece)
{
    to->runs[to->num_runs++] = (struct run){ op, piece };
}

/* Adds the recompute of a whole group of layers before the backward of the group's last layer,
 * which is the first of its backwards. */
static void add_replays(struct builder *to, int piece)
{
    const struct pass_chunk *chunk = to->chunk;
    int layer = piece - chunk->has_embedding;
    if (layer < 0 || layer >= chunk->recomputed || to->op == INSTR_BACKWARD_WEIGHT)
        return;
    if (layer + 1 < chunk->recomputed && (layer + 1) % chunk->every > 0)
        return;
    for (int i = layer - layer % chunk->every; i <= layer; i++)
        add_run(to, STEP_REPLAY, i + chunk->has_embedding);
}

static void add_runs(struct builder *to)
{
    int pieces = pass_pieces(to->chunk);
    for (int piece = 0; piece < pieces && to->op == INSTR_FORWARD; piece++)
        add_run(to, STEP_FORWARD, piece);
    for (int piece = pieces - 1; piece >= 0 && to->op != INSTR_FORWARD; piece--) {
        add_replays(to, piece);
        add_run(to, STEP_BACKWARD, piece);
    }
}

static bool adds_gradients(const struct run *run)
{
    return run->op == STEP_BACKWARD;
}

/* Whether a run uses parameters; weight gradients and the embedding's gradient do not. */
static bool uses_parameters(const struct builder *b, const struct run *run)
{
    bool is_gradient_of_table = run->op == STEP_BACKWARD && is_embedding(b->chunk, run->piece);
    return b->op != INSTR_BACKWARD_WEIGHT && !is_gradient_of_table;
}

/* --- steps --------------------------------------------------------------------------------- */

static void add_step(struct builder *to, enum step_op op, int index)
{
    to->out.at[to->out.count++] = (struct pass_step){ op, index };
}

static bool is_wanted(const struct builder *b, int unit, int run)
{
    return b->wanted[unit] == run + 1;
}

/* Marks the units that run `first` uses and those of the following pieces that are prefetched. */
static void find_wanted(struct builder *b, int first)
{
    int pieces = 0;
    for (int i = first; i < b->num_runs; i++) {
        int units[MOST_UNITS];
        bool is_another = i == first || b->runs[i].piece != b->runs[i - 1].piece;
        pieces += is_another;
        if (pieces > b->chunk->prefetch + 1)
            return;
        int count =
            uses_parameters(b, &b->runs[i]) ? units_of(b->chunk, b->runs[i].piece, units) : 0;
        for (int u = 0; u < count; u++)
            b->wanted[units[u]] = first + 1;
    }
}

static void add_drops(struct builder *to, int run)
{
    int kept = 0;
    for (int i = 0; i < to->num_gathered; i++) {
        int unit = to->gathered[i];
        if (is_wanted(to, unit, run))
            to->gathered[kept++] = unit;
        else
            add_step(to, STEP_DROP, unit);
    }
    to->num_gathered = kept;
}

static bool is_gathered(const struct builder *b, int unit)
{
    for (int i = 0; i < b->num_gathered; i++)
        if (b->gathered[i] == unit)
            return true;
    return false;
}

static void add_gathers(struct builder *to, int first)
{
    for (int i = first; i < to->num_runs; i++) {
        int units[MOST_UNITS];
        int count = units_of(to->chunk, to->runs[i].piece, units);
        bool is_near = false;
        for (int u = 0; u < count; u++) {
            is_near |= is_wanted(to, units[u], first);
            if (!is_wanted(to, units[u], first) || is_gathered(to, units[u]))
                continue;
            add_step(to, STEP_GATHER, units[u]);
            to->gathered[to->num_gathered++] = units[u];
        }
        if (!is_near)
            return;
    }
}

static void add_openings(struct builder *to, const struct run *run)
{
    int units[MOST_UNITS];
    int count = adds_gradients(run) ? units_of(to->chunk, run->piece, units) : 0;
    for (int u = 0; u < count; u++) {
        if (!to->is_open[units[u]])
            add_step(to, STEP_OPEN, units[u]);
        to->is_open[units[u]] = true;
    }
}

/* Adds the reductions of a finished run's units that no later run adds to. */
static void add_reductions(struct builder *to, int run)
{
    int units[MOST_UNITS];
    if (run < 0 || !adds_gradients(&to->runs[run]) || to->op == INSTR_BACKWARD_INPUT)
        return;
    int count = units_of(to->chunk, to->runs[run].piece, units);
    for (int u = 0; u < count; u++) {
        if (to->last_run[units[u]] != run)
            continue;
        add_step(to, STEP_REDUCE, units[u]);
        to->reducing[to->num_reducing++] = units[u];
    }
}

static void add_settlements(struct builder *to)
{
    for (int i = 0; i < to->num_reducing; i++)
        add_step(to, STEP_SETTLE, to->reducing[i]);
    to->num_reducing = 0;
}

/* Adds the drops before the gathers, so that memory is freed before more is taken. On the data lane
 * (the stream of data ranks' collectives), steps that compute waits for come before steps that are
 * needed later. */
static void add_sharing(struct builder *to, int run)
{
    const struct pass_chunk *chunk = to->chunk;
    bool is_over = run == to->num_runs;
    if (chunk->gathers) {
        find_wanted(to, run);
        add_drops(to, run);
    }
    if (chunk->reduces)
        add_settlements(to);
    if ((chunk->reduces || chunk->keeps) && !is_over)
        add_openings(to, &to->runs[run]);
    if (chunk->gathers)
        add_gathers(to, run);
    if (chunk->reduces || chunk->reduces_whole)
        add_reductions(to, run - 1);
    if (chunk->reduces && is_over)
        add_settlements(to);
}

static void find_last_runs(struct builder *b)
{
    int units[MOST_UNITS];
    for (int i = 0; i < b->num_runs; i++)
        for (int u = units_of(b->chunk, b->runs[i].piece, units) - 1; u >= 0; u--)
            if (adds_gradients(&b->runs[i]))
                b->last_run[units[u]] = i;
}

struct pass_steps pass_steps(const struct pass_chunk *chunk, enum opcode op, struct arena *arena)
{
    size_t pieces = (size_t)pass_pieces(chunk);
    size_t units = (size_t)pass_units(chunk);
    struct builder b = { .chunk = chunk, .op = op };
    b.out.at = ARENA_ARRAY(arena, struct pass_step, MOST_STEPS_EACH * pieces);
    struct arena_mark scratch = arena_mark(arena);
    b.runs = ARENA_ARRAY(arena, struct run, MOST_RUNS_EACH * pieces);
    b.gathered = ARENA_ARRAY(arena, int, units);
    b.reducing = ARENA_ARRAY(arena, int, units);
    b.wanted = ARENA_ARRAY(arena, int, units);
    b.last_run = ARENA_ARRAY(arena, int, units);
    b.is_open = ARENA_ARRAY(arena, bool, units);
    add_runs(&b);
    find_last_runs(&b);
    for (int run = 0; run < b.num_runs; run++) {
        add_sharing(&b, run);
        add_step(&b, b.runs[run].op, b.runs[run].piece);
    }
    add_sharing(&b, b.num_runs);
    arena_reset(arena, scratch);
    return b.out;
}
