/* The method milp: runs it, and describes the space that it searched. */
#include "search/milp/milp.h"

#include "base/text.h"
#include "base/units.h"
#include "search/integer_program.h"
#include "search/uneven/joint.h"

#include <math.h>

/* Describes the searched space and what was proved. */
static const char *space_name(const struct search *search, const struct search_result *result,
                              struct arena *arena)
{
    const struct search_request *request = search->request;
    struct text name = { 0 };
    text_add(&name, "%s", result->space_name);
    if (request->stage_types > 0)
        text_add(&name, "; at most %d types of stages", request->stage_types);
    if (request->same_recompute)
        text_add(&name, "; the same recompute for all stages");
    if (request->host_memory_bytes > 0) {
        char bytes[64];
        units_show(request->host_memory_bytes, QUANTITY_BYTES, bytes, sizeof bytes);
        text_add(&name, "; %s of host memory per node", bytes);
    }
    text_add(&name,
             "; for each plan, only the %d divisions of layers with the lowest estimated step time "
             "are timed (1f1b: sum of the stages' passes + (m-1) x the longest pass; other "
             "schedules: a lower bound)",
             MILP_TIMED);
    return text_keep(&name, arena);
}

static bool check_host_memory(const struct search *search, struct err *err)
{
    if (search->request->host_memory_bytes <= 0 || search->space->base.offloads != 0)
        return true;
    return err_set(
        err, ERR_USAGE, "--host-memory",
        "limits only offloaded data; add --fix offload=optimizer or offload=activations");
}

struct leanest {
    const struct search *search;
    double bytes;
};

static void keep_leanest(void *context, int worker, const struct ranked_plan *plan)
{
    struct leanest *leanest = context;
    (void)worker;
    leanest->bytes = fmin(leanest->bytes, joint_most_host_bytes(leanest->search, &plan->plan));
}

/* Sets the error when plans fit their GPUs but not their hosts. */
static bool refuse_hosts(const struct search *search, struct arena *arena, struct err *err)
{
    struct search_request request = *search->request;
    struct leanest leanest = { search, HUGE_VAL };
    char limit[64], needed[64];
    request.jobs = 1;
    struct walk walk = { .request = &request,
                         .system = search->system,
                         .space = search->space,
                         .start_s = search->start_s,
                         .fits = keep_leanest,
                         .context = &leanest };
    walk_run(&walk, arena);
    if (leanest.bytes == HUGE_VAL)
        return true;
    units_show(request.host_memory_bytes, QUANTITY_BYTES, limit, sizeof limit);
    units_show(leanest.bytes, QUANTITY_BYTES, needed, sizeof needed);
    return err_set(
        err, ERR_INFEASIBLE, "--host-memory",
        "no plan fits in %s of host memory per node; the smallest plan with even stages needs %s",
        limit, needed);
}

static bool is_refused_by_hosts(const struct search *search, const struct search_result *result)
{
    return search->request->host_memory_bytes > 0 && result->num_top == 0 && !result->timed_out &&
           !result->was_interrupted;
}

/* Uses one thread when GLPK has a single environment for all threads. */
bool milp_run(const struct search *search, struct search_result *result, struct err *err)
{
    struct search_request request = *search->request;
    struct search joined = *search;
    request.uneven = true;
    if (!integer_program_has_threads())
        request.jobs = 1;
    joined.request = &request;
    if (!check_host_memory(search, err) || !uneven_run_by(&joined, &uneven_by_milp, result, err))
        return false;
    if (is_refused_by_hosts(&joined, result))
        return refuse_hosts(&joined, &result->arena, err);
    if (result->proved_optimal)
        result->lower_bound_s = result->num_top > 0 ? result->top[0].prediction.step_s : 0;
    result->space_name = space_name(&joined, result, &result->arena);
    return true;
}
