#include "tests/covering.h"

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

/* A set of triples: 8^3 values for each three factors. */
enum { VALUES_OF_THREE = MOST_VALUES * MOST_VALUES * MOST_VALUES };

struct triples {
    bool *has;
    int num_factors, count;
};

typedef int triple_visit(struct triples *triples, size_t index);

static int add(struct triples *triples, size_t index)
{
    int is_new = !triples->has[index];
    triples->has[index] = true;
    triples->count += is_new;
    return is_new;
}

static int take(struct triples *triples, size_t index)
{
    int is_new = triples->has[index];
    triples->has[index] = false;
    triples->count -= is_new;
    return is_new;
}

static int look(struct triples *triples, size_t index)
{
    return triples->has[index];
}

/* Sum of what `visit` says of a row's triples. */
static int visit_row(struct triples *triples, const struct covering_row *row, triple_visit *visit)
{
    int sum = 0;
    size_t three = 0;
    for (int a = 0; a < triples->num_factors; a++)
        for (int b = a + 1; b < triples->num_factors; b++)
            for (int c = b + 1; c < triples->num_factors; c++, three++)
                sum += visit(triples, three * VALUES_OF_THREE +
                                          (size_t)row->value[a] * MOST_VALUES * MOST_VALUES +
                                          (size_t)row->value[b] * MOST_VALUES + row->value[c]);
    return sum;
}

static struct triples triples_of(const struct covering_rows *rows, int num_factors)
{
    size_t threes = (size_t)(num_factors * (num_factors - 1) * (num_factors - 2) / 6);
    struct triples triples = { calloc(threes * VALUES_OF_THREE, sizeof *triples.has), num_factors,
                               0 };
    for (int i = 0; i < rows->count; i++)
        visit_row(&triples, &rows->at[i], add);
    return triples;
}

/* The best of those near a random place; any that has something new beats none. */
static int choose_row(struct triples *missing, const struct covering_rows *possible, uint32_t word)
{
    enum { TRIED = 64 };
    uint64_t count = (uint64_t)possible->count;
    int best = -1, best_new = 0;
    for (uint64_t tried = 0; tried < count && (tried < TRIED || best < 0); tried++) {
        int at = (int)((word + tried * 7919) % count);
        int is_new = visit_row(missing, &possible->at[at], look);
        if (is_new > best_new) {
            best = at;
            best_new = is_new;
        }
    }
    return best;
}

/* A stride that shares a factor with the count would not reach all of them. */
static int any_row(struct triples *missing, const struct covering_rows *possible)
{
    for (int i = 0; i < possible->count; i++)
        if (visit_row(missing, &possible->at[i], look) > 0)
            return i;
    return -1;
}

struct covering_rows covering_choose(const struct covering_rows *possible, int num_factors,
                                     uint64_t seed)
{
    struct covering_rows chosen = { 0 };
    struct triples missing = triples_of(possible, num_factors);
    struct draw draw = { .seed = seed };
    for (uint64_t turn = 0; missing.count > 0; turn++) {
        uint32_t word;
        draw_words(&draw, turn, 1, &word);
        int at = choose_row(&missing, possible, word);
        at = at < 0 ? any_row(&missing, possible) : at;
        visit_row(&missing, &possible->at[at], take);
        covering_add(&chosen, &possible->at[at]);
    }
    free(missing.has);
    return chosen;
}
