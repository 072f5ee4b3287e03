/* Dynamic program over the operators in order. A label is a choice of sharding for all operators so
 * far. Later costs depend only on the shardings of operators that have an edge to a later operator.
 * If two labels agree in these shardings, the one that costs more and keeps no fewer bytes is
 * dropped. */
#include "search/partition/partition.h"

#include "base/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool partition_allows(const struct partition_problem *problem, int operator_index,
                      enum sharding sharding)
{
    return (problem->operators[operator_index].allowed >> sharding & 1) != 0;
}

double partition_count(const struct partition_problem *problem)
{
    double count = 1;
    for (int i = 0; i < problem->num_operators; i++) {
        int choices = 0;
        for (int j = 0; j < NUM_SHARDINGS; j++)
            choices += partition_allows(problem, i, (enum sharding)j);
        count *= choices;
    }
    return count;
}

static struct partition_score sum(struct partition_score a, struct partition_score b)
{
    return (struct partition_score){ a.cost + b.cost, a.comm + b.comm, a.units + b.units,
                                     a.bytes + b.bytes };
}

struct partition_score partition_score(const struct partition_problem *problem,
                                       const unsigned char *of)
{
    struct partition_score total = { 0 };
    for (int i = 0; i < problem->num_operators; i++)
        total = sum(total, problem->operators[i].score[of[i]]);
    for (int i = 0; i < problem->num_edges; i++) {
        const struct partition_edge *edge = &problem->edges[i];
        total = sum(total, edge->score[of[edge->from]][of[edge->to]]);
    }
    return total;
}

bool partition_fits(const struct partition_problem *problem, const struct partition_score *score)
{
    return score->bytes <= problem->budget_bytes;
}

struct label {
    int key; /* the shardings that later operators depend on, as the digits of a number */
    double cost, bytes;
    unsigned char of[MAX_OPERATORS];
};

struct labels {
    struct label *at;
    int count;
};

static void push(struct labels *labels, const struct label *label)
{
    labels->at = arena_extend(labels->at, (size_t)labels->count, sizeof *labels->at);
    labels->at[labels->count++] = *label;
}

static int other_end(const struct partition_edge *edge, int operator_index)
{
    return edge->from == operator_index ? edge->to : edge->from;
}

static bool touches(const struct partition_edge *edge, int operator_index)
{
    return edge->from == operator_index || edge->to == operator_index;
}

static bool is_asked_for_after(const struct partition_problem *problem, int i, int now)
{
    for (int e = 0; e < problem->num_edges; e++)
        if (touches(&problem->edges[e], i) && other_end(&problem->edges[e], i) > now)
            return true;
    return false;
}

static int key_of(const struct partition_problem *problem, const unsigned char *of, int now)
{
    int key = 0;
    for (int i = 0; i <= now; i++)
        if (is_asked_for_after(problem, i, now)) {
            assert(key < 1 << 24);
            key = key * NUM_SHARDINGS + of[i];
        }
    return key;
}

/* Extends a label by one operator: adds the operator's score and the scores of its edges to earlier
 * operators. */
static struct label extend(const struct partition_problem *problem, const struct label *label,
                           int now, enum sharding sharding)
{
    struct label longer = *label;
    longer.of[now] = (unsigned char)sharding;
    struct partition_score more = problem->operators[now].score[sharding];
    for (int e = 0; e < problem->num_edges; e++) {
        const struct partition_edge *edge = &problem->edges[e];
        if (touches(edge, now) && other_end(edge, now) <= now)
            more = sum(more, edge->score[longer.of[edge->from]][longer.of[edge->to]]);
    }
    longer.cost += more.cost;
    longer.bytes += more.bytes;
    longer.key = key_of(problem, longer.of, now);
    return longer;
}

static int compare(const void *a, const void *b)
{
    const struct label *left = a;
    const struct label *right = b;
    int order = numbers_order(left->key, right->key);
    order = order ? order : numbers_order(left->cost, right->cost);
    order = order ? order : numbers_order(left->bytes, right->bytes);
    return order ? order : memcmp(left->of, right->of, sizeof left->of);
}

/* Labels are sorted by key, then cost. A label stays if it is the first with its key or keeps fewer
 * bytes than all earlier labels with this key. Without a budget only the first stays. */
static void drop_dominated(struct labels *labels, bool has_budget)
{
    qsort(labels->at, (size_t)labels->count, sizeof *labels->at, compare);
    int kept = 0;
    for (int i = 0; i < labels->count; i++) {
        const struct label *last = kept > 0 ? &labels->at[kept - 1] : NULL;
        bool is_first = !last || last->key != labels->at[i].key;
        if (is_first || (has_budget && labels->at[i].bytes < last->bytes))
            labels->at[kept++] = labels->at[i];
    }
    labels->count = kept;
}

static struct labels take_next(const struct partition_problem *problem, const struct labels *before,
                               int now)
{
    struct labels after = { 0 };
    for (int i = 0; i < before->count; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++) {
            if (!partition_allows(problem, now, (enum sharding)j))
                continue;
            struct label label = extend(problem, &before->at[i], now, (enum sharding)j);
            if (label.bytes <= problem->budget_bytes)
                push(&after, &label);
        }
    if (after.count > 0)
        drop_dominated(&after, problem->budget_bytes < HUGE_VAL);
    return after;
}

bool partition_by_dynamic(const struct partition_problem *problem, struct partition *out)
{
    assert(problem->num_operators <= MAX_OPERATORS);
    struct labels labels = { 0 };
    push(&labels, &(struct label){ 0 });
    for (int now = 0; now < problem->num_operators; now++) {
        struct labels longer = take_next(problem, &labels, now);
        free(labels.at);
        labels = longer;
    }
    bool found = labels.count > 0;
    if (found) {
        memcpy(out->of, labels.at[0].of, sizeof out->of);
        out->total = partition_score(problem, out->of);
    }
    free(labels.at);
    return found;
}
