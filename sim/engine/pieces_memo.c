#include "sim/engine/pieces_memo.h"

#include <string.h>

struct known_pieces {
    struct piece_question question;
    struct piece_places places;
    struct piece_wires wires;
    const struct pieces *pieces;
    struct known_pieces *older;           /* next in the bucket by question and placement */
    struct known_pieces *older_elsewhere; /* next in the bucket by question alone, among those that
                                             own their pieces */
};

static bool asks_the_same(const struct known_pieces *known, const struct piece_question *question)
{
    return memcmp(&known->question, question, sizeof *question) == 0;
}

static bool lies_there_too(const struct known_pieces *known, const struct piece_places *places)
{
    return memcmp(&known->places, places, sizeof *places) == 0;
}

/* Known pieces over the same wires, as other placements often have the same; NULL: none. */
static const struct pieces *over_same_wires(const struct known_pieces *known,
                                            const struct piece_question *question,
                                            const struct piece_wires *wires)
{
    for (; known; known = known->older_elsewhere)
        if (asks_the_same(known, question) && piece_wires_are_alike(&known->wires, wires))
            return known->pieces;
    return NULL;
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

const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator)
{
    struct piece_question question = piece_question_of(system, plan, generator);
    struct piece_places places = piece_places_of(plan);
    struct known_pieces *last = memo->last;
    if (last && asks_the_same(last, &question) && lies_there_too(last, &places))
        return last->pieces;
    unsigned anywhere = hash(0, &question, sizeof question);
    struct known_pieces **here = &memo->placed[bucket_of(hash(anywhere, &places, sizeof places))];
    for (struct known_pieces *k = *here; k; k = k->older)
        if (asks_the_same(k, &question) && lies_there_too(k, &places)) {
            memo->last = k;
            return k->pieces;
        }
    struct known_pieces *found = ARENA_NEW(&memo->arena, struct known_pieces);
    struct known_pieces **wired = &memo->wired[bucket_of(anywhere)];
    found->question = question;
    found->places = places;
    found->wires = piece_wires_of(system, plan);
    found->pieces = over_same_wires(*wired, &question, &found->wires);
    if (!found->pieces) {
        struct pieces *pieces = ARENA_NEW(&memo->arena, struct pieces);
        *pieces = pieces_answer(system, model, &question, &found->wires, &memo->arena);
        found->pieces = pieces;
        found->older_elsewhere = *wired;
        *wired = found;
    }
    found->older = *here;
    *here = memo->last = found;
    return found->pieces;
}

void pieces_memo_forget_places(struct pieces_memo *memo)
{
    memset(memo->placed, 0, sizeof memo->placed);
    memo->last = NULL;
}

void pieces_memo_release(struct pieces_memo *memo)
{
    arena_release(&memo->arena);
}
