/* Finds the model size and the number of tokens that give the lowest predicted loss for a budget of
 * GPUs. */
#include "search/questions/design.h"

#include "base/clock.h"
#include "search/effective.h"
#include "search/probe.h"

#include <math.h>
#include <stddef.h>

/* State of a search for the best model size. */
struct designing {
    const struct design_request *request;
    struct design *design;
    double start_s;
    double batch;
};

double design_flops(struct training training, double served)
{
    return training.parameters * (6 * training.tokens + 2 * served);
}

double design_batch(double flops, int seq, int num_gpus)
{
    double wanted = fmax(1, scaling_batch_tokens(flops) / seq);
    int odd = num_gpus;
    while (odd % 2 == 0)
        odd /= 2;
    return odd * exp2(fmax(0, round(log2(wanted / odd))));
}

static bool is_over(const struct design *design)
{
    return design->timed_out || design->was_interrupted;
}

/* Number of tokens that the budget trains on with this plan. Serving a token takes a third of the
 * FLOPs of training on it, and therefore a third of its time if the GPUs are equally efficient. The
 * rest of the time is for training, including failures and checkpoints. */
static double tokens_of(const struct designing *of, const struct model *model,
                        const struct scored_plan *best)
{
    const struct design_request *request = of->request;
    if (request->time_s <= 0)
        return scaling_tokens(request->budget, model_parameters(model));
    double serving_s = request->budget.served / 3 / best->prediction.tokens_per_s;
    double training_s = request->time_s - serving_s;
    return training_s > 0 ? effective_tokens(request->search->system, model, best, training_s) : 0;
}

/* Searches the best plan for this model within the time that remains. */
static struct probe search_for(struct designing *of, const struct model *model, struct arena *arena)
{
    struct search_request request = *of->request->search;
    double limit_s = request.time_limit_s;
    request.model = model;
    if (limit_s > 0)
        request.time_limit_s = fmax(1e-3, limit_s - (clock_now_s() - of->start_s));
    struct probe probe = probe_best(&request, arena);
    of->design->searches++;
    of->design->timed_out |= probe.timed_out;
    of->design->was_interrupted |= probe.was_interrupted;
    return probe;
}

static bool try_size(struct designing *of, double parameters, struct design_size *out,
                     struct err *err)
{
    const struct design_request *request = of->request;
    const struct model *style = request->search->model;
    *out = (struct design_size){ .loss = HUGE_VAL };
    if (!shape_of_size(style, request->aspect, fmax(parameters, shape_least(style)), &out->model,
                       err))
        return false;
    out->model.batch = of->batch;
    struct arena arena = { 0 };
    struct probe probe = search_for(of, &out->model, &arena);
    out->fits = probe.fits;
    if (probe.fits)
        out->training =
            (struct training){ model_parameters(&out->model),
                               tokens_of(of, &out->model, &probe.best), request->budget.unique };
    if (out->training.tokens > 0)
        out->loss = scaling_loss(request->law, out->training);
    arena_release(&arena);
    return true;
}

static bool have_same_shape(const struct model *a, const struct model *b)
{
    return a->hidden == b->hidden && a->layers == b->layers;
}

/* --- size and throughput in turns ----------------------------------------------------------- */

static double stated_batch(const struct designing *of, double flops)
{
    const struct search_request *search = of->request->search;
    if (of->request->batch_is_stated)
        return search->model->batch;
    return design_batch(flops, search->model->seq, search->system->num_gpus);
}

/* Initial guess of the FLOPs for the iteration: two fifths of the GPUs' peak. */
static double first_flops(const struct design_request *request)
{
    static const double share = 0.4;
    const struct system *system = request->search->system;
    if (request->time_s <= 0)
        return request->budget.flops;
    enum dtype dtype = precision_dtype(request->search->base.precision);
    return share * system->num_gpus * system->gpu.peak_flops_per_s[dtype] * request->time_s;
}

/* The best model size for `flops` by the scaling law. */
static double size_for(const struct design_request *request, double flops)
{
    struct scaling_budget budget = request->budget;
    budget.flops = flops;
    return scaling_best(request->law, budget).parameters;
}

static bool take_turns(struct designing *of, struct err *err)
{
    enum { MOST_TURNS = 8 };
    struct design *design = of->design;
    double flops = first_flops(of->request);
    for (int turn = 0; turn < MOST_TURNS && !is_over(design); turn++) {
        struct design_size size;
        double batch = of->batch;
        of->batch = stated_batch(of, flops);
        if (!try_size(of, size_for(of->request, flops), &size, err))
            return false;
        bool is_same = of->batch == batch && have_same_shape(&size.model, &design->best.model);
        design->best = size;
        if (!size.fits || size.training.tokens <= 0 || is_same || of->request->time_s <= 0)
            break;
        flops = design_flops(size.training, of->request->budget.served);
    }
    return true;
}

/* --- sizes around it ------------------------------------------------------------------------ */

/* The next model shape that is larger or smaller by at least this factor; false beyond the smallest
 * and largest shapes. */
static bool next_shape(const struct designing *of, double factor, const struct model *from,
                       double *parameters)
{
    static const double most = 1e16;
    const struct design_request *request = of->request;
    const struct model *style = request->search->model;
    struct model model = *from;
    struct err ignored = { 0 };
    double size = model_parameters(from);
    while (have_same_shape(&model, from)) {
        size *= factor;
        if (size < shape_least(style) || size > most ||
            !shape_of_size(style, request->aspect, size, &model, &ignored))
            return false;
    }
    *parameters = size;
    return true;
}

/* Steps to larger or smaller sizes as long as the loss falls. While no size fits it goes down four
 * steps at a time; the skipped sizes are tried on the way up. */
static bool walk_sizes(struct designing *of, double factor, struct err *err)
{
    struct design *design = of->design;
    struct model at = design->best.model;
    double parameters;
    bool goes_on = true;
    while (goes_on && !is_over(design)) {
        bool descends = isinf(design->best.loss) && factor < 1;
        struct design_size size;
        if (!next_shape(of, descends ? pow(factor, 4) : factor, &at, &parameters))
            break;
        if (!try_size(of, parameters, &size, err))
            return false;
        bool is_better = size.loss < design->best.loss;
        if (is_better)
            design->best = size;
        goes_on = is_better || descends;
        at = size.model;
    }
    return true;
}

bool search_design(const struct design_request *request, struct design *out, struct err *err)
{
    static const double step = 1.1;
    struct designing of = { .request = request, .design = out, .start_s = clock_now_s() };
    *out = (struct design){ 0 };
    if (!take_turns(&of, err) || !walk_sizes(&of, 1 / step, err) || !walk_sizes(&of, step, err))
        return false;
    out->best.model.tokens = out->best.training.tokens;
    out->flops = design_flops(out->best.training, request->budget.served);
    return true;
}
