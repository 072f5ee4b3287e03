/* A cache of the costs of a model's pieces (layers, embedding, head). It has three hash tables: by
 * the placement of the ranks on nodes, by the links that this placement gives the groups of ranks,
 * and, for single pieces, by what the single piece depends on. */
#include "sim/engine/pieces_memo.h"

#include <stdlib.h>
#include <string.h>

/* The costs of the pieces for one placement of the ranks. */
struct placed_pieces {
    unsigned hash; /* of question and places; usually unlike others in the bucket */
    struct piece_question question;
    struct piece_places places;
    struct wired_pieces *wired;
    struct placed_pieces *older; /* next in the bucket */
};

/* The costs of the pieces for every placement whose ranks have the links `wires`. */
struct wired_pieces {
    struct piece_question question;
    struct piece_wires wires;
    struct pieces pieces;
    const struct pieces_sources *sources; /* NULL: not needed yet */
    const struct pieces_sets *sets;       /* NULL: not needed yet */
    struct wired_pieces *older;           /* next in the bucket */
};

/* The cost of one piece. */
struct built_piece {
    struct piece_question question; /* `question` and `wires` have fixed values wherever the piece
                                       does not depend on them */
    struct piece_wires wires;
    int piece;
    struct piece_cost cost;
    struct built_piece *older; /* next in the bucket */
};

static bool is_same(const struct piece_question *a, const struct piece_question *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool lies_there(const struct placed_pieces *known, const struct piece_question *question,
                       const struct piece_places *places)
{
    return is_same(&known->question, question) &&
           memcmp(&known->places, places, sizeof *places) == 0;
}

/* Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4), int by int. */
static unsigned hash(unsigned seed, const void *ints, size_t bytes)
{
    const int *at = ints;
    for (size_t i = 0; i < bytes / sizeof *at; i++)
        seed = (seed ^ (unsigned)at[i]) * 2654435761U;
    return seed;
}

static unsigned bucket_of(unsigned hash)
{
    return hash >> (32 - PIECES_BUCKET_BITS);
}

static struct placed_pieces **placed_bucket(const struct pieces_memo *memo, unsigned hash)
{
    return &memo->placed[hash >> (32 - memo->placed_bits)];
}

/* Makes the table of placements four times as large before its buckets have more than two entries
 * on average. */
static void grow_placed(struct pieces_memo *memo)
{
    enum { MOST_BITS = 24 };
    size_t buckets = memo->placed_bits > 0 ? (size_t)1 << memo->placed_bits : 0;
    if (memo->num_placed < 2 * buckets || memo->placed_bits == MOST_BITS)
        return;
    struct pieces_memo grown = { .placed_bits =
                                     buckets > 0 ? memo->placed_bits + 2 : PIECES_BUCKET_BITS };
    size_t bytes = ((size_t)1 << grown.placed_bits) * sizeof(struct placed_pieces *);
    grown.placed = arena_grow(NULL, bytes);
    memset(grown.placed, 0, bytes);
    for (size_t i = 0; i < buckets; i++)
        for (struct placed_pieces *at = memo->placed[i], *older; at; at = older) {
            struct placed_pieces **bucket = placed_bucket(&grown, at->hash);
            older = at->older;
            at->older = *bucket;
            *bucket = at;
        }
    free(memo->placed);
    memo->placed = grown.placed;
    memo->placed_bits = grown.placed_bits;
}

/* The cost of one piece for ranks with these links. */
static const struct piece_cost *built(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model,
                                      const struct piece_question *question,
                                      const struct piece_wires *wires, int piece)
{
    struct piece_question narrow = piece_question_narrowed(question, model, piece);
    struct piece_wires of = piece_wires_narrowed(wires, &narrow);
    struct built_piece **bucket =
        &memo->built[bucket_of(hash((unsigned)piece, &narrow, sizeof narrow))];
    for (struct built_piece *known = *bucket; known; known = known->older)
        if (known->piece == piece && is_same(&known->question, &narrow) &&
            piece_wires_are_alike(&known->wires, &of))
            return &known->cost;
    struct piece_cost cost = piece_answer(system, model, &narrow, &of, piece, &memo->arena);
    struct built_piece *found = ARENA_ROOM(&memo->arena, struct built_piece, 1);
    *found = (struct built_piece){ narrow, of, piece, cost, *bucket };
    *bucket = found;
    return &found->cost;
}

static struct pieces all_built(struct pieces_memo *memo, const struct system *system,
                               const struct model *model, const struct piece_question *question,
                               const struct piece_wires *wires)
{
    struct piece_cost costs[NUM_PIECES];
    for (int piece = 0; piece < NUM_PIECES; piece++)
        if (piece_is_there(model, piece))
            costs[piece] = *built(memo, system, model, question, wires, piece);
    return pieces_join(system, model, question, costs);
}

/* Builds the op lists (sequences of operations) of the blocks once more, for all sets of recomputed
 * modules. */
static const struct pieces_sources *sources_of(struct pieces_memo *memo, struct wired_pieces *wired,
                                               const struct system *system,
                                               const struct model *model)
{
    if (!wired->sources)
        wired->sources =
            pieces_sources_of(system, model, &wired->question, &wired->wires, &memo->arena);
    return wired->sources;
}

/* Pieces of the same question with another set of recomputed modules; NULL if there are none. */
static struct wired_pieces *sibling_of(struct wired_pieces *first,
                                       const struct piece_question *question,
                                       const struct piece_wires *wires)
{
    struct piece_question of = *question;
    for (struct wired_pieces *known = first; known; known = known->older) {
        of.replays = known->question.replays;
        bool can_share = question->replays != REPLAYS_PER_OP && of.replays != REPLAYS_PER_OP;
        if (can_share && is_same(&known->question, &of) &&
            piece_wires_are_alike(&known->wires, wires))
            return known;
    }
    return NULL;
}

static struct pieces pieces_beside(struct pieces_memo *memo, struct wired_pieces *sibling,
                                   const struct system *system, const struct model *model,
                                   const struct piece_question *question)
{
    return pieces_replaying(model, &sibling->pieces, sources_of(memo, sibling, system, model),
                            (unsigned)question->replays);
}

/* The pieces for ranks with these links. They are often known already, as other placements have the
 * same links; otherwise they are computed. */
static struct wired_pieces *over_wires(struct pieces_memo *memo, struct wired_pieces **bucket,
                                       const struct system *system, const struct model *model,
                                       const struct piece_question *question,
                                       const struct piece_wires *wires)
{
    for (struct wired_pieces *known = *bucket; known; known = known->older)
        if (is_same(&known->question, question) && piece_wires_are_alike(&known->wires, wires))
            return known;
    struct wired_pieces *sibling = sibling_of(*bucket, question, wires);
    if (!sibling && question->replays == REPLAYS_LEANEST) {
        struct piece_question core = *question;
        core.replays = REPLAYS_CORE;
        over_wires(memo, bucket, system, model, &core, wires);
        sibling = *bucket;
    }
    struct wired_pieces *found = ARENA_NEW(&memo->arena, struct wired_pieces);
    found->question = *question;
    found->wires = *wires;
    found->pieces = sibling ? pieces_beside(memo, sibling, system, model, question)
                            : all_built(memo, system, model, question, wires);
    found->sources = sibling ? sibling->sources : NULL;
    found->older = *bucket;
    *bucket = found;
    return found;
}

static struct wired_pieces *find(struct pieces_memo *memo, const struct system *system,
                                 const struct model *model, const struct plan *plan,
                                 const struct generator *generator)
{
    struct piece_question question = piece_question_of(system, plan, generator);
    struct piece_places places = piece_places_of(plan);
    struct placed_pieces *last = memo->last;
    if (last && lies_there(last, &question, &places))
        return last->wired;
    unsigned anywhere = hash(0, &question, sizeof question);
    unsigned placed = hash(anywhere, &places, sizeof places);
    grow_placed(memo);
    struct placed_pieces **here = placed_bucket(memo, placed);
    for (struct placed_pieces *known = *here; known; known = known->older)
        if (known->hash == placed && lies_there(known, &question, &places)) {
            memo->last = known;
            return known->wired;
        }
    struct piece_wires wires = piece_wires_of(system, plan);
    struct placed_pieces *found = ARENA_NEW(&memo->places, struct placed_pieces);
    found->hash = placed;
    found->question = question;
    found->places = places;
    struct piece_question siblings = question;
    siblings.replays = 0; /* such pieces are in the same bucket */
    struct wired_pieces **bucket = &memo->wired[bucket_of(hash(0, &siblings, sizeof siblings))];
    found->wired = over_wires(memo, bucket, system, model, &question, &wires);
    found->older = *here;
    *here = memo->last = found;
    memo->num_placed++;
    return found->wired;
}

const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator)
{
    return &find(memo, system, model, plan, generator)->pieces;
}

const struct pieces_sets *pieces_memo_sets(struct pieces_memo *memo, const struct system *system,
                                           const struct model *model, const struct plan *plan,
                                           const struct generator *generator)
{
    struct wired_pieces *wired = find(memo, system, model, plan, generator);
    if (!wired->sets)
        wired->sets = pieces_sets_of(model, sources_of(memo, wired, system, model), &memo->arena);
    return wired->sets;
}

void pieces_memo_forget_places(struct pieces_memo *memo)
{
    arena_release(&memo->places);
    free(memo->placed);
    memo->placed = NULL;
    memo->placed_bits = 0;
    memo->num_placed = 0;
    memo->last = NULL;
}

void pieces_memo_release(struct pieces_memo *memo)
{
    pieces_memo_forget_places(memo);
    arena_release(&memo->arena);
}
