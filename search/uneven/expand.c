/* Finds the division of layers over stages with the shortest step. An option of a stage is a number
 * of layers with its times. A front is the set of undominated ways to give the remaining layers to
 * the later stages (search/uneven/fronts.h). */
#include "search/uneven/expand.h"

#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first stages of a division. */
struct node {
    double bound_s;
    int parent; /* index, -1 for the root */
    int stages; /* number of stages with assigned layers */
    int layers; /* layers of the last of them */
    int left;   /* layers left for the later stages */
};

struct expander {
    const struct expansion_request *request;
    struct fronts fronts;
    struct expansion best;
    int *layers;  /* layers of the current node; num_stages long */
    int *kept;    /* layers of the fastest division so far */
    int *seed;    /* the first timed division */
    int *least;   /* the node's layers, and for later stages the fewest that they can have */
    int *fewest;  /* [stage]: the fewest layers of any option that fits */
    int *most;    /* [stage]: the most layers of any option that fits */
    double asked; /* number of calls of request->least_s */
    struct node *nodes;
    int num_nodes;
    int *heap; /* open nodes, the least bound first */
    int num_open;
};

static double cut_s(const struct expander *e)
{
    double least_s = e->best.found ? e->best.step_s : e->request->limit_s;
    return least_s * (1 - proof_tolerance);
}

/* --- the heap --------------------------------------------------------------------------------- */

/* With equal bounds the longer prefix comes first, so that a complete division is reached soon. */
static bool comes_before(const struct expander *e, int a, int b)
{
    const struct node *left = &e->nodes[a];
    const struct node *right = &e->nodes[b];
    if (left->bound_s != right->bound_s)
        return left->bound_s < right->bound_s;
    return left->stages != right->stages ? left->stages > right->stages : a < b;
}

static void swap(int *a, int *b)
{
    int kept = *a;
    *a = *b;
    *b = kept;
}

static void push(struct expander *e, const struct node *node)
{
    e->nodes = arena_extend(e->nodes, (size_t)e->num_nodes, sizeof *e->nodes);
    e->heap = arena_extend(e->heap, (size_t)e->num_open, sizeof *e->heap);
    e->nodes[e->num_nodes] = *node;
    e->heap[e->num_open] = e->num_nodes++;
    for (int i = e->num_open++; i > 0 && comes_before(e, e->heap[i], e->heap[(i - 1) / 2]);
         i = (i - 1) / 2)
        swap(&e->heap[i], &e->heap[(i - 1) / 2]);
}

static int pop(struct expander *e)
{
    int first = e->heap[0];
    e->heap[0] = e->heap[--e->num_open];
    for (int i = 0;;) {
        int least = i;
        for (int child = 2 * i + 1; child <= 2 * i + 2 && child < e->num_open; child++)
            if (comes_before(e, e->heap[child], e->heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&e->heap[i], &e->heap[least]);
        i = least;
    }
}

/* --- expansion -------------------------------------------------------------------------------- */

/* The least time that the given first `stages` stages add to a step. */
static struct ahead ahead_of(const struct expander *e, int stages)
{
    const struct stage_table *table = e->request->table;
    struct ahead ahead = { 0, 0 };
    for (int stage = 0, first = 0; stage < stages; first += e->layers[stage++])
        ahead =
            ahead_with(table, &ahead, stage, &stage_options(table, stage, first)[e->layers[stage]]);
    return ahead;
}

/* The least total of the given first `stages` stages with any suffix that holds the other layers.
 * HUGE_VAL if it is no less than cut_s. */
static double beginning_bound_s(const struct expander *e, int stages, int left)
{
    const struct stage_table *table = e->request->table;
    const struct front *behind = fronts_at(&e->fronts, stages, left);
    const struct composition *bound = table_bound(table);
    struct ahead ahead = ahead_of(e, stages);
    double least_s = HUGE_VAL, most_s = cut_s(e);
    for (int i = 0; i < behind->count; i++) {
        struct suffix suffix = behind->at[i].suffix;
        int first = table->num_layers - left;
        if (sum_floor(bound->least_s(table, &ahead, &suffix)) >= fmin(least_s, most_s))
            continue;
        for (int stage = stages - 1; stage >= 0; stage--) {
            first -= e->layers[stage];
            const struct stage_option *option =
                &stage_options(table, stage, first)[e->layers[stage]];
            suffix = bound->prepend(table, stage, option, &suffix);
        }
        least_s = fmin(least_s, bound->total_s(table, &suffix));
    }
    return least_s;
}

static void read_layers(struct expander *e, int index)
{
    for (const struct node *n = &e->nodes[index]; n->stages > 0; n = &e->nodes[n->parent])
        e->layers[n->stages - 1] = n->layers;
}

static void branch(struct expander *e, int index)
{
    struct node from = e->nodes[index];
    const struct stage_table *table = e->request->table;
    const struct stage_option *options =
        stage_options(table, from.stages, table->num_layers - from.left);
    for (int k = 0; k <= table->most_layers && k <= from.left; k++) {
        if (!options[k].fits)
            continue;
        struct node node = {
            .parent = index, .stages = from.stages + 1, .layers = k, .left = from.left - k
        };
        e->layers[from.stages] = k;
        node.bound_s = fmax(from.bound_s, beginning_bound_s(e, node.stages, node.left));
        if (node.bound_s < cut_s(e))
            push(e, &node);
    }
}

static bool same_layers(const struct expander *e, const int *layers)
{
    return memcmp(e->layers, layers, (size_t)e->request->table->num_stages * sizeof *layers) == 0;
}

static void time_layers(struct expander *e)
{
    double step_s = e->request->time_s(e->request->context, e->layers, NULL);
    e->best.timed++;
    if (step_s >= cut_s(e))
        return;
    e->best.found = true;
    e->best.step_s = step_s;
    memcpy(e->kept, e->layers, (size_t)e->request->table->num_stages * sizeof *e->kept);
}

/* Finds the fewest and the most layers with which each stage fits. If it never fits, the fewest
 * stays most_layers and the most stays 0. */
static void find_ends(struct expander *e)
{
    const struct stage_table *table = e->request->table;
    for (int stage = 0; stage < table->num_stages; stage++) {
        e->fewest[stage] = table->most_layers;
        for (int k = table->most_layers; k >= 0; k--) {
            if (!stage_options(table, stage, 0)[k].fits)
                continue;
            e->fewest[stage] = k;
            e->most[stage] = k > e->most[stage] ? k : e->most[stage];
        }
    }
}

/* Whether least_s proves that every division that begins with the node's stages is too slow. */
static bool is_slow_in_order(struct expander *e, const struct node *node)
{
    const struct stage_table *table = e->request->table;
    int most_behind = 0;
    for (int stage = node->stages; stage < table->num_stages; stage++)
        most_behind += e->most[stage];
    memcpy(e->least, e->layers, (size_t)node->stages * sizeof *e->least);
    for (int stage = node->stages; stage < table->num_stages; stage++) {
        int rest = node->left - (most_behind - e->most[stage]);
        e->least[stage] = rest > e->fewest[stage] ? rest : e->fewest[stage];
    }
    e->asked++;
    return e->request->least_s(e->request->context, e->least) >= cut_s(e);
}

/* Number of divisions that are timed before least_s is called, because it takes long. */
enum { FEW = 8 };

static bool must_stop(const struct expander *e)
{
    const struct expansion_request *request = e->request;
    return e->best.timed >= request->most_timed || e->asked >= request->most_timed ||
           (request->must_stop && request->must_stop(request->context));
}

static void run(struct expander *e)
{
    int stages = e->request->table->num_stages;
    struct node root = { .parent = -1, .left = e->request->table->num_layers };
    root.bound_s = beginning_bound_s(e, 0, root.left);
    push(e, &root);
    e->best.open_s = root.bound_s;
    while (e->num_open > 0 && e->nodes[e->heap[0]].bound_s < cut_s(e)) {
        e->best.open_s = e->nodes[e->heap[0]].bound_s;
        if (must_stop(e))
            return;
        int index = pop(e);
        read_layers(e, index);
        bool is_whole = e->nodes[index].stages == stages;
        if (!is_whole && e->request->least_s && e->best.timed > FEW &&
            is_slow_in_order(e, &e->nodes[index]))
            continue;
        if (!is_whole)
            branch(e, index);
        else if (!same_layers(e, e->seed))
            time_layers(e);
    }
    e->best.open_s = cut_s(e);
    e->best.is_proved = true;
}

/* Times a division near the best first, so that the fronts can drop suffixes that take longer. */
static void time_seed(struct expander *e)
{
    if (!stage_table_balance(e->request->table, e->layers))
        return;
    time_layers(e);
    memcpy(e->seed, e->layers, (size_t)e->request->table->num_stages * sizeof *e->seed);
}

struct expansion expand(const struct expansion_request *request, struct arena *arena)
{
    const struct stage_table *table = request->table;
    size_t stages = (size_t)table->num_stages;
    struct expander e = { .request = request,
                          .layers = ARENA_ARRAY(arena, int, stages),
                          .kept = ARENA_ARRAY(arena, int, stages),
                          .seed = ARENA_ARRAY(arena, int, stages),
                          .least = ARENA_ARRAY(arena, int, stages),
                          .fewest = ARENA_ARRAY(arena, int, stages),
                          .most = ARENA_ARRAY(arena, int, stages) };
    find_ends(&e);
    time_seed(&e);
    e.fronts = fronts_new(table, table_bound(table), cut_s(&e), arena);
    run(&e);
    e.best.layers = e.kept;
    free(e.nodes);
    free(e.heap);
    return e.best;
}
