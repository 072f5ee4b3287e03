#include "sim/engine/pieces_memo.h"

#include <string.h>

struct known_pieces {
    struct piece_question question;
    struct piece_places places;
    struct piece_wires wires;
    const struct pieces *pieces;
    struct known_pieces *older;           /* of the same bucket with places */
    struct known_pieces *older_elsewhere; /* without them, of those that own their pieces */
};

static bool are_alike(const struct piece_wires *a, const struct piece_wires *b)
{
    return comm_groups_are_alike(&a->tensor, &b->tensor) &&
           comm_groups_are_alike(&a->context, &b->context) &&
           comm_groups_are_alike(&a->context_pair, &b->context_pair);
}

static bool asks_the_same(const struct known_pieces *known, const struct piece_question *question)
{
    return memcmp(&known->question, question, sizeof *question) == 0;
}

/* Other places often have the same wires. NULL: none that is known does. */
static const struct pieces *over_same_wires(const struct known_pieces *known,
                                            const struct piece_question *question,
                                            const struct piece_wires *wires)
{
    for (; known; known = known->older_elsewhere)
        if (asks_the_same(known, question) && are_alike(&known->wires, wires))
            return known->pieces;
    return NULL;
}

const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator)
{
    struct piece_question question = piece_question_of(system, plan, generator);
    struct piece_places places = piece_places_of(plan);
    const struct rank_share *share = &question.share;
    int anywhere = (share->tp * 31 + share->cp * 11 + share->microbatch * 7 + share->sp) &
                   (NUM_PIECES_BUCKETS - 1);
    unsigned where = (unsigned)places.tensor_stride * 2654435761U + (unsigned)places.context_stride;
    int bucket = (anywhere ^ (int)(where * 2654435761U >> 20)) & (NUM_PIECES_BUCKETS - 1);
    for (struct known_pieces *k = memo->known[bucket]; k; k = k->older)
        if (asks_the_same(k, &question) && memcmp(&k->places, &places, sizeof places) == 0)
            return k->pieces;
    struct known_pieces *found = ARENA_NEW(&memo->arena, struct known_pieces);
    found->question = question;
    found->places = places;
    found->wires = piece_wires_of(system, question.share, places);
    found->pieces = over_same_wires(memo->wired[anywhere], &question, &found->wires);
    if (!found->pieces) {
        struct pieces *pieces = ARENA_NEW(&memo->arena, struct pieces);
        *pieces = pieces_answer(system, model, &question, &found->wires, &memo->arena);
        found->pieces = pieces;
        found->older_elsewhere = memo->wired[anywhere];
        memo->wired[anywhere] = found;
    }
    found->older = memo->known[bucket];
    memo->known[bucket] = found;
    return found->pieces;
}

void pieces_memo_release(struct pieces_memo *memo)
{
    arena_release(&memo->arena);
}
