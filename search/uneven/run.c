/* The method that searches even plans first and then uneven plans. Layers are dealt if a stage's
 * layers are divided over its chunks by the rule of search/uneven/deal.h. */
#include "search/uneven/uneven.h"

#include "base/text.h"
#include "search/uneven/deal.h"
#include "search/uneven/lattice.h"

#include <math.h>

/* Adds the fastest even plan to the result. */
static void keep_even_best(const struct search *search, const struct frontier *best,
                           struct search_result *result)
{
    result->with_uneven = true;
    if (best->count == 0)
        return;
    result->even_best = ARENA_NEW(&result->arena, struct scored_plan);
    *result->even_best = search_predict(search, &best->at[0].plan, &result->arena);
}

/* Adds to the description which dealt divisions (uneven/deal.h) are searched: those of the fixed
 * schedule or, if none is fixed, those of interleaved stages. */
static void name_dealt(const struct search *search, struct text *name)
{
    const struct plan *base = &search->space->base;
    bool is_fixed = plan_is_dealt(base), has_chunks = search->space->vpp != 1;
    if (!lattice_deals(search) || (!is_fixed && (*base->schedule || !has_chunks)))
        return;
    text_add(name, "%s%s%s also any number of layers per stage%s", name->length > 0 ? "; " : "",
             is_fixed ? "with schedule=" : "with interleaved stages",
             is_fixed ? plan_schedule(base) : "",
             is_fixed && base->vpp == 1 ? "" : ", dealt to its chunks one by one");
}

/* Describes which plans of the space are uneven, or why none are. */
static const char *name_space(const struct search *search, struct arena *arena)
{
    const struct search_request *request = search->request;
    const char *lacks = lattice_lacks(search);
    const char *mixes = lattice_mixes_parts(search)
                            ? "other layers or modules recomputed on each stage"
                        : request->recompute_mixes ? "a different recompute for each stage"
                                                   : "";
    struct text name = { 0 }, parts = { 0 };
    if (!lacks && !plan_is_dealt(&search->space->base))
        text_add(&parts, "with 1f1b also %s%s%s%s", request->uneven ? "uneven chunks" : "",
                 request->uneven && request->recompute_mixes ? " and " : "", mixes,
                 request->uneven ? "" : ", if all stages have equally many layers");
    if (lacks)
        text_add(&parts, "no uneven stages with %s", lacks);
    else
        name_dealt(search, &parts);
    text_add(&name, "%s; %s", search->space->name, text_get(&parts));
    if (!lacks && search->space->picks_modules && !lattice_mixes_parts(search))
        text_add(&name, "; with uneven stages, selective recompute repeats only attention's core");
    text_release(&parts);
    return text_keep(&name, arena);
}

static struct expansion divide(const struct divided_point *point, struct arena *arena,
                               struct err *err)
{
    (void)err;
    return expand(&point->expansion, arena);
}

const struct uneven_way uneven_by_dynamic = { divide, bnb_best };

bool uneven_run_by(const struct search *search, const struct uneven_way *way,
                   struct search_result *result, struct err *err)
{
    if (search->request->objective == OBJECTIVE_MEMORY)
        return err_set(
            err, ERR_USAGE, "--objective",
            "cannot be memory with uneven stages, which are divided for the shortest step");
    struct frontier best;
    double least_s;
    struct tally tally = way->even(search, &result->arena, &best, &least_s);
    keep_even_best(search, &best, result);
    if (best.count == 0 && tally_is_complete(&tally))
        least_s = HUGE_VAL;
    struct uneven uneven = uneven_search(search, way, &tally, &best, &result->arena);
    if (uneven.err.code != ERR_NONE)
        return err_pass(err, &uneven.err);
    search_fill_counts(&tally, result);
    search_fill_top(search, &best, result);
    result->space_name = name_space(search, &result->arena);
    result->proved_optimal = tally_is_complete(&tally) && uneven.is_proved;
    result->lower_bound_s = result->proved_optimal ? tally.fastest_s : fmin(uneven.open_s, least_s);
    if (result->num_top == 0 && result->proved_optimal && !search->request->without_hints)
        search_fill_nearest(search, &tally, result);
    return true;
}

bool uneven_run(const struct search *search, struct search_result *result, struct err *err)
{
    return uneven_run_by(search, &uneven_by_dynamic, result, err);
}

bool dp_run(const struct search *search, struct search_result *result, struct err *err)
{
    struct search_request request = *search->request;
    struct search uneven = *search;
    request.uneven = true;
    uneven.request = &request;
    return uneven_run(&uneven, result, err);
}
