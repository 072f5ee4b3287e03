/* Finds the exchange of gradients and the layout that reach an accuracy in the shortest time: the
 * number of steps times the time of a step. */
#include "search/time_to_accuracy.h"

#include "base/clock.h"
#include "base/statistics.h"
#include "search/evaluators.h"
#include "search/method.h"
#include "search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fastest plan found so far with one exchange. */
struct trial {
    const struct search_request *request;
    /* shared by all searches, as no cost of a layer depends on the exchange */
    struct evaluators evaluators;
    struct accuracy_result *result;
    struct accurate_plan best; /* best plan with this exchange */
    bool has_best;
    double floor_s; /* lower bound of every plan's step time */
    double start_s;
};

static bool fixes(const char *words, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = words; at && (at = strstr(at, name)); at += length)
        if ((at == words || at[-1] == ' ') &&
            (at[length] == '=' || (at[length] >= '0' && at[length] <= '9')))
            return true;
    return false;
}

static struct time_to_accuracy to_accuracy(const struct search_request *request,
                                           const struct plan *plan, double step_s)
{
    const struct convergence *convergence =
        request->convergence ? request->convergence : &convergence_published;
    return time_to_accuracy(convergence, request->system, request->model, plan, step_s);
}

/* Whether a plan with this exchange and number of data ranks may be the best. The number of steps
 * depends only on these two, so a plan without any other parallel axis stands for all. This does
 * not hold for compressing exchanges, which are never ruled out: their steps also depend on the
 * shapes of the sharded tensors. */
static bool can_win(const struct trial *trial, const struct exchange *exchange, int data_ranks)
{
    if (exchange_method_of(exchange)->compressor)
        return true;
    struct plan plan = trial->request->base;
    plan.dp = data_ranks;
    plan.exchange = *exchange;
    struct time_to_accuracy to = to_accuracy(trial->request, &plan, trial->floor_s);
    return isfinite(to.seconds) && (!trial->has_best || to.seconds <= trial->best.to.seconds);
}

static void keep(struct trial *trial, const struct scored_plan *found)
{
    struct time_to_accuracy to =
        to_accuracy(trial->request, &found->plan, found->prediction.step_s);
    if (isinf(to.seconds) || (trial->has_best && trial->best.to.seconds < to.seconds))
        return;
    trial->best = (struct accurate_plan){ .scored = scored_plan_copy(found, &trial->result->arena),
                                          .to = to };
    trial->has_best = true;
}

/* Time left before the limit that all searches share, > 0; 0: no limit. */
static double time_left_s(const struct trial *trial)
{
    const double least_s = 1e-6;
    double limit_s = trial->request->time_limit_s;
    return limit_s > 0 ? fmax(trial->start_s + limit_s - clock_now_s(), least_s) : 0;
}

static bool search_ranks(struct trial *trial, const struct exchange *exchange, int data_ranks,
                         struct err *err)
{
    struct search_request request = *trial->request;
    struct search_result found;
    struct text fix = { 0 };
    text_add(&fix, "%s%sdp%d exchange=", request.fix ? request.fix : "", request.fix ? " " : "",
             data_ranks);
    exchange_write(exchange, &fix);
    request.fix = text_get(&fix);
    request.objective = OBJECTIVE_TIME;
    request.top = 1;
    request.evaluators = &trial->evaluators;
    request.without_hints = true;
    request.time_limit_s = time_left_s(trial);
    bool ok = search_run(&request, &found, err);
    trial->result->searches++;
    if (ok) {
        trial->result->timed_out |= found.timed_out;
        trial->result->was_interrupted |= found.was_interrupted;
        trial->result->candidates += found.candidates;
        trial->result->proved = trial->result->proved &&
                                (found.proved_optimal || found.num_top == 0) && !found.timed_out &&
                                !found.was_interrupted;
        if (found.num_top > 0)
            keep(trial, &found.top[0]);
    }
    search_result_release(&found);
    text_release(&fix);
    return ok;
}

static bool is_over(const struct accuracy_result *result)
{
    return result->timed_out || result->was_interrupted;
}

/* Tries few data ranks first: they need the fewest steps, so their result rules out many others. Of
 * equally good plans the last is kept. */
static bool try_exchange(struct trial *trial, const struct exchange *exchange, struct err *err)
{
    int num_gpus = trial->request->system->num_gpus;
    trial->has_best = false;
    for (int ranks = 1; ranks <= num_gpus && !is_over(trial->result); ranks++) {
        bool is_alone = ranks == 1 && !exchange_is_default(exchange);
        if (num_gpus % ranks != 0 || is_alone || !can_win(trial, exchange, ranks))
            continue;
        if (!search_ranks(trial, exchange, ranks, err))
            return false;
    }
    if (trial->has_best)
        trial->result->at[trial->result->count++] = trial->best;
    return true;
}

static int compare_seconds(const void *a, const void *b)
{
    const struct accurate_plan *left = a, *right = b;
    int order = numbers_order(left->to.seconds, right->to.seconds);
    return order ? order : left->scored.plan.exchange.method - right->scored.plan.exchange.method;
}

bool search_time_to_accuracy(const struct search_request *request, struct accuracy_result *result,
                             struct err *err)
{
    *result = (struct accuracy_result){ .proved = true };
    if (fixes(request->fix, "exchange") || fixes(request->fix, "dp"))
        return err_set(err, ERR_USAGE, "--fix",
                       "--objective time-to-accuracy chooses dp and exchange, so --fix cannot "
                       "contain them; found \"%s\"",
                       request->fix);
    double start_s = clock_now_s();
    struct prepared prepared;
    if (!search_prepare(request, &result->arena, &prepared, err))
        return false;
    struct trial trial = { .request = request,
                           .result = result,
                           .floor_s = search_peak_floor_s(&prepared.search),
                           .start_s = start_s };
    result->at = ARENA_ARRAY(&result->arena, struct accurate_plan, (size_t)num_exchange_methods);
    bool ok = true;
    for (int i = 0; ok && i < num_exchange_methods; i++) {
        struct exchange exchange;
        ok = exchange_read(exchange_methods[i].tried, &exchange, err) &&
             try_exchange(&trial, &exchange, err);
    }
    evaluators_release(&trial.evaluators);
    if (!ok)
        return false;
    qsort(result->at, (size_t)result->count, sizeof *result->at, compare_seconds);
    result->elapsed_s = clock_now_s() - start_s;
    return true;
}

void accuracy_result_release(struct accuracy_result *result)
{
    arena_release(&result->arena);
    *result = (struct accuracy_result){ 0 };
}
