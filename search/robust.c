/* Compares a few plans (rivals) when costs are scaled, one class of costs at a time or by random
 * draws. */
#include "search/robust.h"

#include "base/length.h"
#include "base/parallel.h"
#include "base/random.h"
#include "sim/engine/memory_interval.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Step times of all rivals in all draws, and the smallest change of each class that makes another
 * rival the best (flip). */
struct costs {
    const struct robust_request *request;
    double *step_s; /* [draw x num_rivals + rival]; HUGE_VAL: does not fit */
    struct flip *flips;
};

double robust_factor(const struct robust_request *request, int draw, int cost_class)
{
    uint64_t stream = (uint64_t)draw * MOST_COST_CLASSES + (uint64_t)cost_class;
    struct random rng = random_new(request->seed, stream);
    return 1 + request->spread * (2 * random_unit(&rng) - 1);
}

static void time_rivals(const struct robust_request *request, const struct system *system,
                        double *step_s)
{
    struct evaluator *evaluator = evaluator_new(system, request->model);
    for (int i = 0; i < request->num_rivals; i++) {
        const struct plan *plan = &request->rivals[i].plan;
        bool fits = evaluate_peak_bytes(evaluator, plan) <= memory_fits_bytes(system);
        step_s[i] = fits ? evaluate_step_s(evaluator, plan) : HUGE_VAL;
    }
    evaluator_free(evaluator);
}

static void make_draw(void *context, size_t draw, int worker)
{
    (void)worker;
    struct costs *costs = context;
    const struct robust_request *request = costs->request;
    struct arena arena = { 0 };
    struct system system = *request->system;
    for (int i = 0; i < num_cost_classes; i++)
        cost_classes[i].scale(&system, robust_factor(request, (int)draw, i), &arena);
    time_rivals(request, &system, costs->step_s + draw * (size_t)request->num_rivals);
    arena_release(&arena);
}

/* Index of the first of the fastest rivals. */
static int best_of(const double *step_s, int num_rivals)
{
    int best = 0;
    for (int i = 1; i < num_rivals; i++)
        if (step_s[i] < step_s[best])
            best = i;
    return best;
}

/* --- flips -------------------------------------------------------------------------------- */

/* The fastest rival, chosen like best_of. Bounds rule out most rivals, with a tolerance for
 * rounding. */
static int find_best(const struct robust_request *request, const struct system *system,
                     const struct model *model)
{
    const double rounding = 1e-9;
    struct evaluator *evaluator = evaluator_new(system, model);
    double least_s = HUGE_VAL;
    int best = -1;
    for (int i = 0; i < request->num_rivals; i++) {
        const struct plan *plan = &request->rivals[i].plan;
        if (evaluate_peak_bytes(evaluator, plan) > memory_fits_bytes(system) ||
            evaluate_bound_s(evaluator, plan) * (1 - rounding) >= least_s)
            continue;
        double step_s = evaluate_step_s(evaluator, plan);
        if (step_s < least_s) {
            least_s = step_s;
            best = i;
        }
    }
    evaluator_free(evaluator);
    return best;
}

/* The best rival when only one class has a factor. */
static int best_at(const struct robust_request *request, int cost_class, double factor)
{
    struct arena arena = { 0 };
    struct system system = *request->system;
    cost_classes[cost_class].scale(&system, factor, &arena);
    int best = find_best(request, &system, request->model);
    arena_release(&arena);
    return best;
}

static const double flip_steps[] = { 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, LARGEST_FLIP };
enum { NUM_FLIP_STEPS = LENGTH(flip_steps), BISECTIONS = 8 };

/* Bisects between the factor `low`, at which the chosen plan is the best, and `high`, at which
 * rival `to` is the best. */
static struct flip refine(const struct robust_request *request, int cost_class, double low,
                          double high, int to)
{
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = 0.5 * (low + high);
        int best = best_at(request, cost_class, middle);
        if (best == 0) {
            low = middle;
        } else {
            high = middle;
            to = best;
        }
    }
    return (struct flip){ high, to };
}

/* Handles one class and direction: index 2 x class for larger factors, the next index for smaller
 * ones. */
static void find_flip(void *context, size_t index, int worker)
{
    (void)worker;
    struct costs *costs = context;
    const struct robust_request *request = costs->request;
    double sign = index % 2 == 0 ? 1 : -1;
    int cost_class = (int)(index / 2);
    double last = 1;
    costs->flips[index] = (struct flip){ 0, -1 };
    for (int i = 0; i < NUM_FLIP_STEPS; i++) {
        double factor = 1 + sign * flip_steps[i];
        int best = best_at(request, cost_class, factor);
        if (best != 0) {
            costs->flips[index] = refine(request, cost_class, last, factor, best);
            break;
        }
        last = factor;
    }
}

/* Of two changes, the one whose factor is nearer to 1. */
static struct flip nearer_flip(struct flip up, struct flip down)
{
    if (up.factor == 0 || down.factor == 0)
        return up.factor == 0 ? down : up;
    return up.factor - 1 <= 1 - down.factor ? up : down;
}

/* --- draws -------------------------------------------------------------------------------- */

static struct rival_score score_rival(const struct costs *costs, const int *best, int rival)
{
    const struct robust_request *request = costs->request;
    struct rival_score score = { .rival = rival };
    double num_best = 0, num_close = 0, num_fits = 0, sum = 0;
    for (int draw = 0; draw < request->num_draws; draw++) {
        const double *step_s = costs->step_s + (size_t)draw * (size_t)request->num_rivals;
        if (step_s[rival] == HUGE_VAL)
            continue;
        double regret = step_s[rival] / step_s[best[draw]] - 1;
        num_fits++;
        num_best += best[draw] == rival;
        num_close += regret <= CLOSE_REGRET;
        sum += regret;
        score.largest_regret = fmax(score.largest_regret, regret);
    }
    score.best_share = num_best / request->num_draws;
    score.close_share = num_close / request->num_draws;
    score.fits_share = num_fits / request->num_draws;
    score.mean_regret = num_fits > 0 ? sum / num_fits : 0;
    return score;
}

static bool is_safer(const struct rival_score *a, const struct rival_score *b)
{
    if (a->fits_share != b->fits_share)
        return a->fits_share > b->fits_share;
    return a->largest_regret < b->largest_regret;
}

static void score_draws(const struct costs *costs, struct robustness *out)
{
    const struct robust_request *request = costs->request;
    int *best = arena_grow(NULL, (size_t)request->num_draws * sizeof *best);
    for (int draw = 0; draw < request->num_draws; draw++)
        best[draw] = best_of(costs->step_s + (size_t)draw * (size_t)request->num_rivals,
                             request->num_rivals);
    out->choice = out->often = out->safe = score_rival(costs, best, 0);
    for (int i = 1; i < request->num_rivals; i++) {
        struct rival_score score = score_rival(costs, best, i);
        if (score.best_share > out->often.best_share)
            out->often = score;
        if (is_safer(&score, &out->safe))
            out->safe = score;
    }
    free(best);
}

struct robustness search_robust(const struct robust_request *request)
{
    assert(request->num_rivals > 0 && request->num_draws > 0);
    assert(request->spread >= 0 && request->spread < 1);
    struct robustness out = { .spread = request->spread,
                              .num_draws = request->num_draws,
                              .num_rivals = request->num_rivals };
    struct flip flips[2 * MOST_COST_CLASSES];
    size_t num_times = (size_t)request->num_draws * (size_t)request->num_rivals;
    struct costs costs = { request, arena_grow(NULL, num_times * sizeof(double)), flips };
    parallel_for(request->jobs, (size_t)request->num_draws, 1, make_draw, &costs);
    parallel_for(request->jobs, 2 * (size_t)num_cost_classes, 1, find_flip, &costs);
    score_draws(&costs, &out);
    for (int i = 0; i < num_cost_classes; i++)
        out.flips[i] = nearer_flip(flips[2 * i], flips[2 * i + 1]);
    free(costs.step_s);
    return out;
}

/* --- the tipping point -------------------------------------------------------------------- */

struct tipping {
    const struct robust_request *request;
    double within;
    struct flip *flips;
};

/* Handles one class and direction, numbered as for find_flip. */
static void find_tipping(void *context, size_t index, int worker)
{
    (void)worker;
    struct tipping *tipping = context;
    int cost_class = (int)(index / 2);
    double factor = 1 + (index % 2 == 0 ? 1 : -1) * tipping->within;
    int best = best_at(tipping->request, cost_class, factor);
    tipping->flips[index] = (struct flip){ 0, -1 };
    if (best != 0)
        tipping->flips[index] = refine(tipping->request, cost_class, 1, factor, best);
}

struct tipping_point search_tipping_point(const struct robust_request *request, double within)
{
    struct flip flips[2 * MOST_COST_CLASSES];
    struct tipping tipping = { request, within, flips };
    struct tipping_point point = { -1, { 0, -1 } };
    parallel_for(request->jobs, 2 * (size_t)num_cost_classes, 1, find_tipping, &tipping);
    for (int i = 0; i < 2 * num_cost_classes; i++) {
        bool is_nearer =
            point.flip.factor == 0 || fabs(flips[i].factor - 1) < fabs(point.flip.factor - 1);
        if (flips[i].factor != 0 && is_nearer)
            point = (struct tipping_point){ i / 2, flips[i] };
    }
    return point;
}

/* --- routing ------------------------------------------------------------------------------ */

/* The best rival when the popularity of experts has this coefficient of variation; 0: equal
 * loads. */
static int best_routed(const struct robust_request *request, double cv)
{
    struct model model = *request->model;
    model.routing =
        (struct routing){ .kind = cv > 0 ? ROUTING_SKEWED : ROUTING_BALANCED, .cv = cv };
    return find_best(request, request->system, &model);
}

struct routing_flip search_routing_flip(const struct robust_request *request)
{
    static const double steps[] = { 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, LARGEST_CV };
    const struct routing *routing = &request->model->routing;
    double low = routing->kind == ROUTING_SKEWED ? routing->cv : 0;
    struct routing_flip flip = { 0, -1 };
    if (request->model->experts == 0 || routing->kind == ROUTING_RANDOM ||
        routing->kind == ROUTING_FACTOR || routing->kind == ROUTING_IN_TURN ||
        best_routed(request, low) != 0)
        return flip;
    for (int i = 0; i < LENGTH(steps); i++) {
        if (steps[i] <= low)
            continue;
        int best = best_routed(request, steps[i]);
        if (best == 0) {
            low = steps[i];
            continue;
        }
        flip = (struct routing_flip){ steps[i], best };
        for (int k = 0; k < BISECTIONS; k++) {
            double middle = 0.5 * (low + flip.cv);
            best = best_routed(request, middle);
            if (best == 0)
                low = middle;
            else
                flip = (struct routing_flip){ middle, best };
        }
        break;
    }
    return flip;
}
