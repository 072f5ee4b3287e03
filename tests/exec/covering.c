#include "tests/exec/covering.h"

#include "kernels/host/philox.h"

#include <stdbool.h>
#include <stdlib.h>

void covering_add(struct covering_rows *rows, const struct covering_row *row)
{
    if (rows->count == rows->room) {
        rows->room = rows->room ? 2 * rows->room : 256;
        rows->at = realloc(rows->at, sizeof *rows->at * (size_t)rows->room);
    }
    rows->at[rows->count++] = *row;
}

/* A set of triples: for each choice of three factors it has 8^3 flags, one for each combination of
 * their values. */
enum { VALUES_OF_THREE = MOST_VALUES * MOST_VALUES * MOST_VALUES };

struct triples {
    bool *has;
    int num_factors;
};

/* Returns how many triples of a row the set lacks. If `adds` is true, adds these triples to the
 * set. */
static int visit_row(struct triples *triples, const struct covering_row *row, bool adds)
{
    int lacking = 0;
    size_t three = 0;
    for (int a = 0; a < triples->num_factors; a++)
        for (int b = a + 1; b < triples->num_factors; b++)
            for (int c = b + 1; c < triples->num_factors; c++, three++) {
                bool *has = &triples->has[three * VALUES_OF_THREE +
                                          (size_t)row->value[a] * MOST_VALUES * MOST_VALUES +
                                          (size_t)row->value[b] * MOST_VALUES + row->value[c]];
                lacking += !*has;
                *has |= adds;
            }
    return lacking;
}

/* Returns, among the rows near a random index, the one with the most new triples. */
static int choose_row(struct triples *seen, const struct covering_rows *possible, uint32_t word)
{
    enum { TRIED = 64 };
    uint64_t count = (uint64_t)possible->count;
    int best = 0, best_new = -1;
    for (uint64_t tried = 0; tried < count && tried < TRIED; tried++) {
        int at = (int)((word + tried * 7919) % count);
        int is_new = visit_row(seen, &possible->at[at], false);
        if (is_new > best_new) {
            best = at;
            best_new = is_new;
        }
    }
    return best;
}

struct covering_rows covering_choose(const struct covering_rows *possible, int num_factors,
                                     int count, uint64_t seed)
{
    struct covering_rows chosen = { 0 };
    size_t threes = (size_t)(num_factors * (num_factors - 1) * (num_factors - 2) / 6);
    struct triples seen = { calloc(threes * VALUES_OF_THREE, sizeof *seen.has), num_factors };
    struct draw draw = { .seed = seed };
    while (chosen.count < count) {
        uint32_t word;
        draw_words(&draw, (uint64_t)chosen.count, 1, &word);
        int at = choose_row(&seen, possible, word);
        visit_row(&seen, &possible->at[at], true);
        covering_add(&chosen, &possible->at[at]);
    }
    free(seen.has);
    return chosen;
}
