/* Marks the points on the Pareto front of three keys, each of which is better when smaller. */
#include "search/questions/pareto.h"

#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

bool pareto_dominates(const struct pareto_point *a, const struct pareto_point *b)
{
    bool is_better = false;
    for (int i = 0; i < PARETO_KEYS; i++) {
        if (a->key[i] > b->key[i])
            return false;
        is_better |= a->key[i] < b->key[i];
    }
    return is_better;
}

/* A point, in the order in which pareto_mark visits it. */
struct swept {
    struct pareto_point point;
    size_t index; /* index in the caller's array */
    size_t rank;  /* rank of its second key, from 1 */
};

static int compare_from(const struct swept *a, const struct swept *b, int first)
{
    int order = 0;
    for (int i = first; i < PARETO_KEYS && !order; i++)
        order = numbers_order(a->point.key[i], b->point.key[i]);
    return order;
}

static int by_all_keys(const void *a, const void *b)
{
    return compare_from(a, b, 0);
}

static int by_second_key(const void *a, const void *b)
{
    return compare_from(a, b, 1);
}

/* Fenwick tree (1994) of minima: least[i] covers the ranks (i - lowbit(i), i]. */
static double least_up_to(const double *least, size_t rank)
{
    double found = HUGE_VAL;
    for (; rank > 0; rank -= rank & -rank)
        found = fmin(found, least[rank]);
    return found;
}

static void add_least(double *least, size_t num_ranks, size_t rank, double value)
{
    for (; rank <= num_ranks; rank += rank & -rank)
        least[rank] = fmin(least[rank], value);
}

static struct swept *sort_points(const struct pareto_point *points, size_t count)
{
    struct swept *swept = arena_grow(NULL, (count + 1) * sizeof *swept);
    for (size_t i = 0; i < count; i++)
        swept[i] = (struct swept){ .point = points[i], .index = i };
    qsort(swept, count, sizeof *swept, by_second_key);
    for (size_t i = 0; i < count; i++)
        swept[i].rank =
            i > 0 && swept[i].point.key[1] == swept[i - 1].point.key[1] ? swept[i - 1].rank : i + 1;
    qsort(swept, count, sizeof *swept, by_all_keys);
    return swept;
}

/* Visits points in lexicographic order. Only an earlier point, which is no worse in the first key,
 * can dominate a later one; it does if its second and third keys are no larger. Equal points do not
 * dominate each other, so all of them are checked before any is added. */
void pareto_mark(const struct pareto_point *points, size_t count, bool *is_on_front)
{
    struct swept *swept = sort_points(points, count);
    double *least = arena_grow(NULL, (count + 1) * sizeof *least);
    for (size_t i = 0; i <= count; i++)
        least[i] = HUGE_VAL;
    for (size_t i = 0, end; i < count; i = end) {
        double third = swept[i].point.key[2];
        bool stands = least_up_to(least, swept[i].rank) > third;
        for (end = i; end < count && by_all_keys(&swept[end], &swept[i]) == 0; end++)
            is_on_front[swept[end].index] = stands;
        add_least(least, count, swept[i].rank, third);
    }
    free(least);
    free(swept);
}
