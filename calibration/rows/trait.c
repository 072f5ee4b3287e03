/* Finds the columns of measured rows on which the errors of predictions depend. A cell is the set
 * of rows that are equal in all chosen columns. */
#include "calibration/rows/trait.h"

#include "base/length.h"
#include "base/statistics.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The smallest gain in explained variance for which a column is added. */
static const double least_gain = 0.05;

struct column {
    const char *name;
    size_t offset;
    bool is_text;
};
#define NUMBER(member)                                   \
    {                                                    \
#member, offsetof(struct run_row, member), false \
    }
#define TEXT(member)                                    \
    {                                                   \
#member, offsetof(struct run_row, member), true \
    }
static const struct column columns[] = {
    NUMBER(n_gpus),   NUMBER(layers),     NUMBER(hidden),     NUMBER(seq),        NUMBER(gbs_seqs),
    NUMBER(mbs),      NUMBER(dp),         NUMBER(tp),         NUMBER(pp),         NUMBER(vpp),
    NUMBER(cp),       TEXT(gpu),          NUMBER(zero_stage), TEXT(software),     TEXT(precision),
    TEXT(recompute),  TEXT(schedule),     TEXT(model_name),   NUMBER(zero_shard), NUMBER(compiled),
    NUMBER(async_tp), TEXT(reduce_dtype), TEXT(param_dtype),
};
enum { NUM_COLUMNS = LENGTH(columns) };

struct entry {
    const struct run_row *row;
    double error;
    const struct column *const *by; /* the num_by columns by which all entries are grouped */
    int num_by;
};

static int compare_column(const struct column *column, const struct run_row *a,
                          const struct run_row *b)
{
    const void *x = (const char *)a + column->offset;
    const void *y = (const char *)b + column->offset;
    if (column->is_text)
        return strcmp(*(const char *const *)x, *(const char *const *)y);
    return numbers_order(*(const double *)x, *(const double *)y);
}

static int compare_traits(const struct entry *x, const struct entry *y)
{
    int order = 0;
    for (int i = 0; i < x->num_by && order == 0; i++)
        order = compare_column(x->by[i], x->row, y->row);
    return order;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int by_traits = compare_traits(x, y);
    return by_traits ? by_traits : (x->row > y->row) - (x->row < y->row);
}

/* Sum over all entries of (error - mean error of the cell's other entries)^2. */
static double unexplained_in(const struct entry *cell, int n, double mean)
{
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < n; i++)
        sum += cell[i].error;
    for (int i = 0; i < n; i++) {
        double others = n > 1 ? (sum - cell[i].error) / (n - 1) : mean;
        squares += (cell[i].error - others) * (cell[i].error - others);
    }
    return squares;
}

static double unexplained(struct entry *entries, int n, const struct column *const *by, int num_by)
{
    double mean = 0;
    double squares = 0;
    for (int i = 0; i < n; i++) {
        mean += entries[i].error / n;
        entries[i].by = by;
        entries[i].num_by = num_by;
    }
    qsort(entries, (size_t)n, sizeof *entries, compare_entries);
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && compare_traits(&entries[first], &entries[end]) == 0;)
            end++;
        squares += unexplained_in(&entries[first], end - first, mean);
    }
    return squares;
}

struct traits traits_find(const struct run_row *const *rows, const double *errors, int n)
{
    struct traits out = { .count = 0 };
    const struct column *by[MOST_TRAITS] = { NULL };
    if (n < FEWEST_TRAIT_ROWS)
        return out;
    struct entry *entries = arena_grow(NULL, (size_t)n * sizeof *entries);
    for (int i = 0; i < n; i++)
        entries[i] = (struct entry){ .row = rows[i], .error = errors[i] };
    double all = unexplained(entries, n, by, 0);
    for (; out.count < MOST_TRAITS && all > 0; out.count++) {
        double best = out.explained + least_gain;
        const struct column *chosen = NULL;
        for (int i = 0; i < NUM_COLUMNS; i++) {
            by[out.count] = &columns[i];
            double explained = 1 - unexplained(entries, n, by, out.count + 1) / all;
            if (explained < best)
                continue;
            best = explained;
            chosen = &columns[i];
        }
        if (!chosen)
            break;
        by[out.count] = chosen;
        out.column[out.count] = chosen->name;
        out.explained = best;
    }
    free(entries);
    return out;
}
