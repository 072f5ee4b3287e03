/* Makes a rank's pieces (layers, embedding, head) and their stores. A store holds a piece's
 * parameters with their gradients and optimizer state. */
#include "exec/run/rank_store.h"

#include "models/blocks.h"
#include "sim/plan/ranks.h"

#include <math.h>

/* Data shared by equal pieces. A piece is the embedding, the head or a layer; layers of one kind
 * are equal. */
struct piece_shape {
    struct layer_dims dims;
    int model_heads;
    struct local_ops ops;
    struct weights weights;
    struct lifetimes lifetimes;
    struct saved_layout saved;
    struct replay replay;
    struct last_reader last_again;
    enum keeping keeping;
};

struct placer {
    struct rank *rank;
    struct piece_shape shapes[NUM_PIECES];
};

/* The position of a piece in a chunk. */
struct piece_place {
    int kind, layer; /* as in struct piece */
    enum keeping keeping;
};

typedef struct local_ops local_ops_of(struct rank_share share, const struct model *model,
                                      double seq, const struct layer_options *options,
                                      bool overlap_tp, struct arena *arena);

/* The rank's plan, with the recompute of its stage. */
static struct plan own_plan(const struct rank *rank)
{
    return plan_of_stage(rank->setup.plan, rank->stage);
}

static enum keeping keeping_of(const struct plan *plan, int kind)
{
    if (!piece_is_layer(kind) || plan->recompute == RECOMPUTE_NONE)
        return KEEP_ALL;
    return plan->recompute == RECOMPUTE_SELECTIVE ? KEEP_SOME : KEEP_INPUT;
}

static struct piece_shape shape_of(struct rank *rank, local_ops_of *ops_of, int kind,
                                   const struct model *model)
{
    const struct run_setup *setup = &rank->setup;
    struct arena *arena = &rank->arena;
    struct plan plan = own_plan(rank);
    struct rank_share share = rank_share_of(&plan);
    struct piece_shape shape = {
        .dims = local_dims(share, model, model->seq),
        .model_heads = model->heads,
        .ops = ops_of(share, model, model->seq, &setup->options, setup->overlaps_tensor, arena),
        .keeping = keeping_of(&plan, kind),
    };
    shape.weights = weights_of(&shape.ops.forward, share, rank->at.at[AXIS_TENSOR], arena);
    shape.lifetimes = lifetimes_of(&shape.ops);
    if (shape.keeping == KEEP_SOME) {
        shape.replay = ops_replay(&shape.ops.forward, plan_replays(&plan), true, arena);
        shape.last_again = last_reader_again(&shape.ops.forward, shape.replay.is_again);
    }
    shape.saved = saved_layout_of(&shape.ops.forward, shape.keeping, &shape.replay,
                                  machine_stream_bytes(&rank->machine), arena);
    return shape;
}

/* --- stores ------------------------------------------------------------------------------- */

static bool is_copy_of_tied(const struct rank *rank, int kind)
{
    return kind == PIECE_HEAD && rank->setup.model->tied;
}

/* The standard deviation of initial values. As in GPT-2, matrices that write to the residual stream
 * have smaller values: the deviation is divided by the square root of the number of these matrices,
 * 2 per layer. */
static double deviation_of(const struct rank *rank, const struct op_weight *weight)
{
    static const double usual = 0.02; /* Megatron-LM's init-method-std */
    if (weight->role == WEIGHT_BIAS || weight->role == WEIGHT_SCALE || weight->role == WEIGHT_SHIFT)
        return 0;
    return weight->feeds_stream ? usual / sqrt(2.0 * rank->setup.model->layers) : usual;
}

/* A weight as the store keeps it. The head's copy of a tied embedding starts with the same random
 * values as the embedding, and only the embedding counts in sums over all weights. */
static struct stored_weight stored_weight(const struct rank *rank, const struct weight *weight,
                                          int kind, int layer, int number)
{
    bool is_copy = weight->of->is_vocabulary && is_copy_of_tied(rank, kind);
    return (struct stored_weight){
        .weight = weight,
        .offset = weight->offset,
        .layer = (uint16_t)(is_copy ? 0 : layer + 1),
        .number = (uint16_t)(is_copy ? 0 : number),
        .deviation = deviation_of(rank, weight->of),
        .constant = weight->of->role == WEIGHT_SCALE ? 1 : 0,
        .is_counted = (weight->is_split || rank->at.at[AXIS_TENSOR] == 0) && !is_copy,
        .is_partial = weight_is_partial(weight, rank->setup.plan),
    };
}

static size_t padded(size_t elements, size_t shards)
{
    enum { SHARD_ALIGNMENT = 64 }; /* in elements; 256 bytes */
    size_t unit = shards * SHARD_ALIGNMENT;
    return (elements + unit - 1) / unit * unit;
}

static struct store *add_store(struct rank *rank, const struct piece_shape *shape, int kind,
                               int layer, bool of_vocabulary)
{
    size_t elements = of_vocabulary ? shape->weights.vocabulary_elements : shape->weights.elements;
    if (elements == 0)
        return NULL;
    const struct plan *plan = rank->setup.plan;
    bool is_shared = exchange_keeps_replicas_equal(&plan->exchange);
    struct store *store = &rank->stores[rank->num_stores];
    rank->all_stores[rank->num_stores++] = store;
    *store = (struct store){ .elements = elements,
                             .shards = is_shared ? plan_replicas(plan) : 1,
                             .shard = is_shared ? rank->at.at[AXIS_DATA] : 0,
                             .zero = plan_replicas(plan) > 1 ? plan->zero : 0 };
    store->padded = padded(elements, (size_t)store->shards);
    store->weights = ARENA_ARRAY(&rank->arena, struct stored_weight, (size_t)shape->weights.count);
    for (int i = 0; i < shape->weights.count; i++)
        if (shape->weights.at[i].of->is_vocabulary == of_vocabulary)
            store->weights[store->num_weights++] =
                stored_weight(rank, &shape->weights.at[i], kind, layer, i);
    return store;
}

/* The store of embedding or head. If the stage has both and they are tied, the head uses the
 * embedding's store. */
static struct store *vocabulary_store(struct rank *rank, const struct piece_shape *shape, int kind,
                                      int layer)
{
    if (is_copy_of_tied(rank, kind) && placement_ends_meet(plan_placement(rank->setup.plan)))
        for (int i = 0; i < rank->num_stores; i++)
            if (rank->stores[i].weights[0].weight->of->role == WEIGHT_TABLE)
                return &rank->stores[i];
    return add_store(rank, shape, kind, layer, true);
}

/* --- chunks ------------------------------------------------------------------------------- */

static void use_store(struct chunk *chunk, struct store *store)
{
    for (int i = 0; i < chunk->num_stores; i++)
        if (chunk->stores[i] == store)
            return;
    if (store)
        chunk->stores[chunk->num_stores++] = store;
}

static void add_piece(struct placer *placer, struct chunk *chunk, struct piece_place place)
{
    struct rank *rank = placer->rank;
    int kind = place.kind;
    const struct piece_shape *shape = &placer->shapes[kind];
    int layer = place.layer;
    struct piece *piece = &chunk->pieces[chunk->num_pieces++];
    *piece = (struct piece){ .layer = layer,
                             .ops = &shape->ops,
                             .dims = shape->dims,
                             .model_heads = shape->model_heads,
                             .lifetimes = &shape->lifetimes,
                             .saved = shape->saved,
                             .keeping = shape->keeping,
                             .is_again = shape->replay.is_again,
                             .last_again = &shape->last_again,
                             .value_bytes = machine_bytes(&rank->machine, 1),
                             .weights = shape->weights };
    /* with block:N and full:K, layers of one kind may keep different activations */
    if (place.keeping != shape->keeping) {
        piece->keeping = place.keeping;
        piece->saved = saved_layout_of(&shape->ops.forward, place.keeping, NULL, 0, &rank->arena);
    }
    piece->own = add_store(rank, shape, kind, layer, false);
    piece->vocabulary =
        shape->weights.vocabulary_elements > 0 ? vocabulary_store(rank, shape, kind, layer) : NULL;
    use_store(chunk, piece->own);
    use_store(chunk, piece->vocabulary);
}

/* The activations that layer `i` of a chunk keeps. */
static enum keeping keeping_of_layer(const struct plan *plan, int i, int recomputed)
{
    enum keeping keeping = keeping_of(plan, 0);
    if (keeping != KEEP_INPUT)
        return keeping;
    if (i >= recomputed)
        return KEEP_ALL;
    bool is_inside = plan->recompute == RECOMPUTE_EVERY && i % plan->recompute_every > 0;
    return is_inside ? KEEP_NOTHING : KEEP_INPUT;
}

static void place_units(struct chunk *chunk, const struct pass_chunk *shape, struct arena *arena)
{
    chunk->units = ARENA_ARRAY(arena, struct store *, (size_t)pass_units(shape));
    for (int piece = 0; piece < chunk->num_pieces; piece++) {
        int vocabulary = pass_vocabulary_unit_of(shape, piece);
        chunk->units[pass_unit_of(piece)] = chunk->pieces[piece].own;
        if (vocabulary >= 0)
            chunk->units[vocabulary] = chunk->pieces[piece].vocabulary;
    }
}

static void place_chunk(struct placer *placer, int global)
{
    struct rank *rank = placer->rank;
    const struct plan own = own_plan(rank), *plan = &own;
    const struct model *model = rank->setup.model;
    struct chunk *chunk = &rank->chunks[rank_round(rank, global)];
    struct holding held = chunk_holding(plan, model, global);
    int layers = held.layers;
    int recomputed = plan_recomputed_layers(plan, global, layers);
    int first = chunk_first_layer(plan, model, global);
    chunk->pieces = ARENA_ARRAY(&rank->arena, struct piece, (size_t)layers + 2);
    chunk->stores = ARENA_ARRAY(&rank->arena, struct store *, 2 * ((size_t)layers + 2));
    if (held.count[PIECE_EMBEDDING] > 0)
        add_piece(placer, chunk, (struct piece_place){ PIECE_EMBEDDING, -1, KEEP_ALL });
    for (int i = 0; i < layers; i++)
        add_piece(placer, chunk,
                  (struct piece_place){ model_kind_of(model, first + i), first + i,
                                        keeping_of_layer(plan, i, recomputed) });
    if (held.count[PIECE_HEAD] > 0)
        add_piece(placer, chunk, (struct piece_place){ PIECE_HEAD, model->layers, KEEP_ALL });
    struct pass_chunk shape = pass_chunk_of(plan, model, global, rank->setup.prefetch);
    place_units(chunk, &shape, &rank->arena);
    for (int op = 0; op < NUM_PASSES; op++)
        chunk->passes[op] = pass_steps(&shape, (enum opcode)op, &rank->arena);
    shape.reduces_whole = rank_reduces_pieces(rank);
    for (int op = 0; op < NUM_PASSES && shape.reduces_whole; op++)
        if (instr_ends_backward((enum opcode)op))
            chunk->last[op] = pass_steps(&shape, (enum opcode)op, &rank->arena);
}

void rank_place_stores(struct rank *rank)
{
    const struct plan *plan = rank->setup.plan;
    const struct model *model = rank->setup.model;
    size_t most = 2 * ((size_t)model->layers + 2);
    struct placer *placer = ARENA_NEW(&rank->arena, struct placer); /* pieces point into it */
    placer->rank = rank;
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        placer->shapes[kind] = shape_of(rank, local_layer, kind, &of);
    }
    placer->shapes[PIECE_EMBEDDING] = shape_of(rank, local_embedding, PIECE_EMBEDDING, model);
    placer->shapes[PIECE_HEAD] = shape_of(rank, local_head, PIECE_HEAD, model);
    rank->stores = ARENA_ARRAY(&rank->arena, struct store, most);
    rank->all_stores = ARENA_ARRAY(&rank->arena, struct store *, most);
    rank->chunks = ARENA_ARRAY(&rank->arena, struct chunk, (size_t)plan->vpp);
    for (int v = 0; v < plan->vpp; v++)
        place_chunk(placer, placement_chunk(plan_placement(plan), rank->stage, v));
}
