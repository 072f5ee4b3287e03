/* When no plan fits into memory: finds the plan that exceeds memory the least, and the fewest GPUs
 * on which some plan fits. */
#include "search/method.h"

#include "models/trained_weights.h"
#include "sim/memory/state_memory.h"

/* fewest_gpus tries each divisor of a node's number of GPUs, each number of nodes up to
 * NODES_IN_A_ROW, then doublings up to MOST_GPUS. It then searches between the last number that
 * failed and the first that fits, in STEPS steps. */
enum { NODES_IN_A_ROW = 16, MOST_GPUS = 65536, STEPS = 16 };

/* The caller's request, changed to another number of GPUs. */
struct other {
    const struct search *search;
    const struct search_request *asked; /* its progress is reported between searches */
    struct system *system;              /* scratch copy whose num_gpus changes */
    struct arena *arena;
};

static bool make_space(const struct other *other, int num_gpus, struct space *space)
{
    const struct search_request *request = other->search->request;
    struct err ignored = { 0 };
    other->system->num_gpus = num_gpus;
    struct space_request space_request = { .model = request->model,
                                           .num_gpus = num_gpus,
                                           .base = &request->base,
                                           .fix = request->fix,
                                           .forbid = request->forbid,
                                           .placement = request->placement,
                                           .chunks = (enum chunk_space)request->chunks,
                                           .system = other->system };
    return space_new(&space_request, other->arena, space, &ignored) &&
           system_check(other->system, &space->base, &ignored);
}

/* Whether the memory of all GPUs together is too small for one copy of each parameter's optimizer
 * state, which every plan needs. */
static bool is_hopeless(const struct other *other, int num_gpus)
{
    const struct search_request *request = other->search->request;
    const struct model *model = request->model;
    double trained = model_trained_parameters(model);
    double least_bytes = least_optimizer_bytes(&other->system->stack, &request->base, model);
    return !plan_offloads(&request->base, OFFLOAD_OPTIMIZER) &&
           trained * least_bytes > num_gpus * other->system->gpu.memory_bytes;
}

static bool any_fits(const struct other *other, int num_gpus)
{
    if (is_hopeless(other, num_gpus))
        return false;
    struct arena_mark mark = arena_mark(other->arena);
    struct space space;
    if (other->asked->progress)
        other->asked->progress(1, other->asked->progress_context);
    struct walk walk = { .request = other->search->request,
                         .system = other->system,
                         .space = &space,
                         .start_s = other->search->start_s,
                         .only_whether_any_fits = true };
    bool fits = make_space(other, num_gpus, &space) && walk_run(&walk, other->arena).evaluated > 0;
    arena_reset(other->arena, mark);
    return fits;
}

/* Goes in equal steps from `low` GPUs, where nothing fits, towards `high`, where a plan fits. The
 * step at which a plan first fits is then divided into smaller steps, until a step is one node. The
 * result is not always the least number: if a number of GPUs fails only because it does not divide
 * the batch, smaller numbers may fit. */
static int refine(const struct other *other, int low, int high, int node)
{
    while (high - low > node) {
        int step = (high - low) / STEPS / node * node;
        step = step < node ? node : step;
        int at = low + step;
        while (at < high && !any_fits(other, at))
            at += step;
        low = at - step;
        high = at < high ? at : high;
    }
    return high;
}

/* The fewest GPUs that fit; 0: no tried number fits. */
static int fewest_gpus(const struct other *other)
{
    int node = cluster_node_size(&other->system->cluster);
    for (int count = 1; count < node; count++)
        if (node % count == 0 && any_fits(other, count))
            return count;
    for (int nodes = 1; nodes <= NODES_IN_A_ROW; nodes++)
        if (any_fits(other, nodes * node))
            return nodes * node;
    int failed = NODES_IN_A_ROW * node;
    for (int count = 2 * failed; count <= MOST_GPUS; count *= 2) {
        if (any_fits(other, count))
            return refine(other, failed, count, node);
        failed = count;
    }
    return 0;
}

/* The best plan on the fewest GPUs. */
static void fill_fewest(const struct other *other, int num_gpus, struct search_result *result)
{
    struct space space;
    if (!make_space(other, num_gpus, &space))
        return;
    struct search search = { other->search->request, other->system, &space,
                             other->search->start_s };
    struct frontier best;
    search_best(&search, 1, other->arena, &best);
    if (best.count == 0)
        return;
    result->fewest_gpus = num_gpus;
    result->fewest = search_predict(&search, &best.at[0].plan, &result->arena);
}

void search_fill_nearest(const struct search *search, const struct tally *tally,
                         struct search_result *result)
{
    result->has_nearest = tally->has_least;
    if (tally->has_least)
        result->nearest = search_predict(search, &tally->least.plan, &result->arena);
    struct system system = *search->system;
    /* the searches on other counts report no progress */
    struct search_request quiet = *search->request;
    quiet.progress = NULL;
    struct search silent = { &quiet, search->system, search->space, search->start_s };
    struct other other = { &silent, search->request, &system, &result->arena };
    int num_gpus = fewest_gpus(&other);
    if (num_gpus > 0)
        fill_fewest(&other, num_gpus, result);
}
