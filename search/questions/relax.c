/* When no plan is feasible: finds the smallest changes of the request that admit one. A change
 * concerns the GPUs, the batch, the memory limit, or a layout word (such as tp8) that the request
 * fixes or forbids. */
#include "search/questions/relax.h"

#include "base/clock.h"
#include "base/statistics.h"
#include "base/text.h"
#include "search/counts.h"
#include "search/probe.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const relaxed_names[] = { "gpus", "batch", "max-memory", "fix", "forbid", NULL };

enum { NEAR_NODES = 64, MOST_BATCHES = 512 };

/* The search and its relaxations share one time limit. */
static bool has_time(struct search_request *request, const struct relaxations *out)
{
    if (request->time_limit_s <= 0)
        return true;
    request->time_limit_s -= clock_now_s() - out->start_s;
    return request->time_limit_s > 0;
}

static bool add(const struct search_request *changed, struct relaxation relaxation,
                struct relaxations *out)
{
    struct probe probe = { 0 };
    struct search_request request = *changed;
    if (request.progress)
        request.progress(1, request.progress_context);
    if (has_time(&request, out))
        probe = probe_best(&request, &out->arena);
    if (!probe.fits)
        return false;
    relaxation.word = relaxation.word ? relaxation.word : "";
    relaxation.words = relaxation.words ? relaxation.words : "";
    relaxation.best = probe.best;
    out->at = arena_extend(out->at, (size_t)out->count, sizeof *out->at);
    out->at[out->count++] = relaxation;
    return true;
}

/* --- GPUs --------------------------------------------------------------------------------- */

static bool add_count(const struct search_request *request, int num_gpus, struct relaxations *out)
{
    struct system system;
    struct search_request changed = probe_on(request, num_gpus, &system);
    struct relaxation relaxation = { .what = RELAXED_GPUS,
                                     .from = request->system->num_gpus,
                                     .to = num_gpus };
    return add(&changed, relaxation, out);
}

/* Nothing fits on fewer GPUs than result->fewest_gpus. If that number exceeds the requested one,
 * the result already shows it. */
static void relax_gpus(const struct search_request *request, const struct search_result *result,
                       struct relaxations *out)
{
    const struct cluster *cluster = &request->system->cluster;
    int asked = request->system->num_gpus;
    int node = cluster_node_size(cluster);
    if (result->fewest_gpus == 0 || result->fewest_gpus >= asked)
        return;
    struct values counts = counts_all(cluster, asked - 1, &out->arena);
    for (int i = counts.count - 1; i >= 0 && counts.at[i] >= result->fewest_gpus; i--)
        if (add_count(request, counts.at[i], out))
            break;
    double most = cluster->num_nodes > 0 ? (double)cluster->num_nodes * node : INT_MAX;
    for (int nodes = asked / node + 1; nodes <= asked / node + NEAR_NODES; nodes++)
        if ((double)nodes * node <= most && add_count(request, nodes * node, out))
            break;
}

/* --- batch -------------------------------------------------------------------------------- */

/* A list of batches without repeats. */
struct batches {
    double at[MOST_BATCHES];
    int count;
};

static void add_batch(double batch, struct batches *batches)
{
    for (int i = 0; i < batches->count; i++)
        if (batches->at[i] == batch)
            return;
    if (batch >= 1 && batches->count < MOST_BATCHES)
        batches->at[batches->count++] = batch;
}

/* Adds the next multiples below and above the requested batch. */
static void add_multiples(double asked, double at_once, struct batches *batches)
{
    double below = floor(asked / at_once) * at_once;
    add_batch(below, batches);
    add_batch(below + at_once, batches);
}

static void list_batches(const struct space *space, double asked, struct batches *batches)
{
    struct plan plan = space->base;
    for (size_t i = 0, count = space_num_degrees(space); i < count; i++) {
        if (!space_degrees(space, i, &plan))
            continue;
        double at_once = (double)plan.dp * space->microbatch.at[0];
        add_multiples(asked, at_once, batches);
        if (space->vpp > 1) /* the fewest microbatches that interleaving accepts */
            add_batch(at_once * plan.pp, batches);
    }
}

static bool add_changed_batch(const struct search_request *request, double batch,
                              struct relaxations *out)
{
    struct model model = *request->model;
    struct search_request changed = *request;
    struct relaxation relaxation = { .what = RELAXED_BATCH, .from = model.batch, .to = batch };
    model.batch = batch;
    changed.model = &model;
    return add(&changed, relaxation, out);
}

static bool breaks(const struct search_result *result, const char *rule)
{
    for (int i = 0; i < result->num_exclusions; i++)
        if (strcmp(result->exclusions[i].rule, rule) == 0)
            return true;
    return false;
}

static void relax_batch(const struct search_request *request, const struct search_result *result,
                        struct relaxations *out)
{
    struct prepared prepared;
    struct err ignored = { 0 };
    struct batches batches = { .count = 0 };
    double asked = request->model->batch;
    if ((!breaks(result, "batch") && !breaks(result, "interleave")) ||
        !search_prepare(request, &out->arena, &prepared, &ignored) ||
        prepared.space.microbatch.count == 0)
        return;
    list_batches(&prepared.space, asked, &batches);
    numbers_sort(batches.at, (size_t)batches.count);
    for (int i = batches.count - 1; i >= 0; i--)
        if (batches.at[i] < asked && add_changed_batch(request, batches.at[i], out))
            break;
    for (int i = 0; i < batches.count; i++)
        if (batches.at[i] > asked && add_changed_batch(request, batches.at[i], out))
            break;
}

/* --- words -------------------------------------------------------------------------------- */

/* The words without the one at `index`. */
static const char *words_without(const char *words, int index, struct arena *arena)
{
    struct text kept = { 0 };
    const char *word = NULL;
    for (int i = 0; (word = words_next(&words, arena)) != NULL; i++)
        if (i != index)
            text_add(&kept, "%s%s", kept.length > 0 ? " " : "", word);
    return text_keep(&kept, arena);
}

static bool drop_words(const struct search_request *request, struct relaxation relaxation,
                       struct relaxations *out)
{
    struct search_request changed = *request;
    if (relaxation.what == RELAXED_FIX)
        changed.fix = relaxation.words;
    else
        changed.forbid = relaxation.words;
    return add(&changed, relaxation, out);
}

static void relax_words(const struct search_request *request, enum relaxed what,
                        struct relaxations *out)
{
    const char *words = what == RELAXED_FIX ? request->fix : request->forbid;
    const char *left = words;
    const char *word = NULL;
    bool any = false;
    int count = 0;
    while (words && (word = words_next(&left, &out->arena)) != NULL) {
        const char *kept = words_without(words, count++, &out->arena);
        any |= drop_words(request, (struct relaxation){ .what = what, .word = word, .words = kept },
                          out);
    }
    const char *all = words ? arena_text(&out->arena, words_begin(words)) : "";
    if (!any && count > 1)
        drop_words(request, (struct relaxation){ .what = what, .word = all, .words = "" }, out);
}

/* --- memory ------------------------------------------------------------------------------- */

static void relax_memory(const struct search_request *request, const struct search_result *result,
                         struct relaxations *out)
{
    double needed = result->has_nearest ? result->nearest.prediction.peak_memory_bytes : 0;
    struct search_request changed = *request;
    struct relaxation relaxation = { .what = RELAXED_MEMORY,
                                     .from = request->max_memory_bytes,
                                     .to = ceil(needed) };
    changed.max_memory_bytes = relaxation.to;
    if (needed > 0 && request->max_memory_bytes > 0 &&
        relaxation.to <= request->system->gpu.memory_bytes)
        add(&changed, relaxation, out);
}

void search_relax(const struct search_request *request, const struct search_result *result,
                  struct relaxations *out)
{
    *out = (struct relaxations){ .start_s = clock_now_s() - result->elapsed_s };
    relax_words(request, RELAXED_FIX, out);
    relax_words(request, RELAXED_FORBID, out);
    relax_memory(request, result, out);
    relax_batch(request, result, out);
    relax_gpus(request, result, out);
}

void relaxations_release(struct relaxations *relaxations)
{
    free(relaxations->at);
    arena_release(&relaxations->arena);
    *relaxations = (struct relaxations){ 0 };
}
