/* Learns the ratio of measured to predicted time of a stack. A row is one measured run. The shift
 * is the error that all runs of a source have in common; a source is the publication or user that
 * rows come from. */
#include "calibration/learn/learn.h"

#include "base/normal.h"
#include "base/text.h"
#include "sim/engine/interval.h"
#include "sim/engine/tier.h"

#include <math.h>
#include <string.h>

const double most_learned_factor = 3;

/* sqrt(2/3): half of the values of a t distribution with two degrees of freedom are smaller in
 * size. */
static const double median_of_t2 = 0.8165;

/* Number of standard deviations within which this share of normal errors lies. */
static double normal_reach(double share)
{
    return normal_quantile((1 + share) / 2);
}

/* --- the prior ----------------------------------------------------------------------------- */

bool learn_prior_find(const struct source_shifts *shifts, const char *without,
                      struct learn_prior *out, struct err *err)
{
    double spreads2 = 0, scatters2 = 0;
    *out = (struct learn_prior){ 0 };
    for (int i = 0; i < shifts->count; i++) {
        const struct source_shift *of = &shifts->at[i];
        if (of->groups < FEWEST_SHIFT_ROWS || (without && strcmp(of->source, without) == 0))
            continue;
        spreads2 += of->spread * of->spread;
        scatters2 += of->scatter * of->scatter;
        out->sources++;
    }
    if (out->sources < 2 || !(spreads2 > 0) || !(scatters2 > 0))
        return err_set(err, ERR_INPUT, "left_out.json",
                       "expected two or more sources with at least %d rows each; found %d",
                       FEWEST_SHIFT_ROWS, out->sources);
    out->core = sqrt(spreads2 / out->sources) / median_of_t2;
    out->scatter = sqrt(scatters2 / out->sources);
    for (int tier = 0; tier < NUM_TIERS; tier++) {
        out->of[tier] = shift_prior_find(shifts, (enum tier)tier, without);
        out->width[tier] = shift_width(shifts, (enum tier)tier, without);
    }
    return true;
}

/* --- rows that can be used ----------------------------------------------------------------- */

static double log_ratio(const struct run_case *of, const struct run_prediction *predicted)
{
    return -run_error(of, predicted);
}

static const char *why_unusable(const struct run_case *of, const struct run_prediction *predicted,
                                struct arena *arena)
{
    if (*of->skip)
        return arena_text(arena, of->skip);
    if (!(run_measured_s(of->row) > 0))
        return "no time or throughput was measured";
    double factor = exp(fabs(log_ratio(of, predicted)));
    if (factor <= most_learned_factor)
        return "";
    struct text words = { 0 };
    text_add(&words,
             "measured %.3g s, predicted %.3g s: off by a factor of %.1f, so it is probably not "
             "the described run",
             run_measured_s(of->row), predicted->step_s, factor);
    return text_keep(&words, arena);
}

static bool is_same_configuration(const struct run_row *a, const struct run_row *b)
{
    return *a->config_group && strcmp(a->config_group, b->config_group) == 0 &&
           strcmp(a->source_key, b->source_key) == 0;
}

/* Drops earlier measurements of a configuration that was measured again, as `validate` does. */
static void drop_repeats(const struct run_case *cases, int count, const char **reason)
{
    for (int i = 0; i < count; i++)
        for (int k = i + 1; k < count && *reason[i] == '\0'; k++)
            if (*reason[k] == '\0' && is_same_configuration(cases[i].row, cases[k].row))
                reason[i] = "a later row measures the same configuration";
}

/* --- ratios -------------------------------------------------------------------------------- */

static double own_width(const struct stack *stack, const struct run_prediction *predicted)
{
    double shares[NUM_ERROR_PARTS];
    interval_shares(&predicted->time, shares);
    double width = interval_of_widths(&stack->errors.widths, shares);
    return width > 0 ? width : stack->errors.log;
}

/* The half width of the shift that remains after learning. Its square is the sum of two squares:
 * that of the learned ratio's error, and that of the rows' scatter in excess of their stated
 * interval. Both are scaled to cover a share (1 + 1/n) 0.9 of normal errors, n the number of
 * sources (conformal prediction). */
static double shift_left(const struct learn_prior *prior, double deviation, double width)
{
    double reach = normal_reach(fmin(0.9 * (1 + 1.0 / prior->sources), 0.99));
    double scatter = reach * prior->scatter;
    double beyond2 = fmax(0, scatter * scatter - width * width);
    return sqrt(pow(normal_90 * deviation, 2) + beyond2);
}

/* --- the posterior distribution ------------------------------------------------------------ */

/* Steps of a grid, and the standard deviations that it reaches to either side. */
enum { GRID = 200, REACH = 8 };

struct moments {
    double mean, deviation;
};

/* A density at the points low + i step; the weights add up to 1. */
struct density {
    double low, step, weight[GRID + 1];
};

/* A GPU with a part of its own in the shift. */
struct own_part {
    const struct learned_gpu *gpu;
    struct density likelihood; /* of its rows, by their shift */
};

/* One stack. `x` is the part of the shift that its GPUs share. */
struct question {
    const struct learned_stack *of;
    double core;
    struct own_part own[MOST_LEARNED_GPUS];
    int num_own;
    const struct learned_gpu *gpu; /* the GPU of gpu_density */
};

static double log_t(double x, double scale, double freedom)
{
    double in_scales = x / scale;
    return -(freedom + 1) / 2 * log1p(in_scales * in_scales / freedom);
}

static double rows_log_likelihood(const struct learned_gpu *gpu, double core, double shift)
{
    double sum = 0;
    for (int i = 0; i < gpu->num_ratios; i++)
        sum += log_t(gpu->ratios[i] - shift, core, 2);
    return sum;
}

/* Replaces the weights, which are logarithms, by numbers relative to the largest; returns their
 * sum. */
static double from_logarithms(struct density *of)
{
    double most = -HUGE_VAL, sum = 0;
    for (int i = 0; i <= GRID; i++)
        most = fmax(most, of->weight[i]);
    for (int i = 0; i <= GRID; i++)
        sum += of->weight[i] = exp(of->weight[i] - most);
    return sum;
}

/* Calls log_density at each point. */
static struct moments fill(const struct question *q,
                           double (*log_density)(const struct question *, double), double low,
                           double high, struct density *out)
{
    struct moments found = { 0, 0 };
    out->low = low;
    out->step = (high - low) / GRID;
    for (int i = 0; i <= GRID; i++)
        out->weight[i] = log_density(q, low + i * out->step);
    double sum = from_logarithms(out);
    for (int i = 0; i <= GRID; i++) {
        out->weight[i] /= sum;
        found.mean += out->weight[i] * (low + i * out->step);
    }
    for (int i = 0; i <= GRID; i++)
        found.deviation += out->weight[i] * pow(low + i * out->step - found.mean, 2);
    found.deviation = sqrt(found.deviation);
    return found;
}

/* The second grid is for many rows: the density is then narrower than the steps of the first. */
static struct moments fill_closely(const struct question *q,
                                   double (*log_density)(const struct question *, double),
                                   double low, double high, struct density *out)
{
    struct moments first = fill(q, log_density, low, high, out);
    double around = REACH * fmax(first.deviation, (high - low) / GRID);
    return fill(q, log_density, fmax(low, first.mean - around), fmin(high, first.mean + around),
                out);
}

/* The density of the shift on a GPU if there were no other GPUs. */
static double gpu_density(const struct question *q, double shift)
{
    double scale = hypot(q->of->prior_error, q->gpu->prior_error);
    return log_t(shift, scale, fmin(q->of->prior_freedom, q->gpu->prior_freedom)) +
           rows_log_likelihood(q->gpu, q->core, shift);
}

/* The moments of the shift on a GPU, given the shared part x, and the likelihood of x. */
static double given_shared(const struct own_part *own, double x, double *mean, double *square)
{
    const struct density *grid = &own->likelihood;
    double sums[3] = { 0 };
    for (int i = 0; i <= GRID; i++) {
        double shift = grid->low + i * grid->step;
        double weight =
            grid->weight[i] * exp(log_t(shift - x, own->gpu->prior_error, own->gpu->prior_freedom));
        sums[0] += weight;
        sums[1] += weight * shift;
        sums[2] += weight * shift * shift;
    }
    *mean = sums[0] > 0 ? sums[1] / sums[0] : 0;
    *square = sums[0] > 0 ? sums[2] / sums[0] : 0;
    return sums[0];
}

static double shared_density(const struct question *q, double x)
{
    double sum = log_t(x, q->of->prior_error, q->of->prior_freedom), mean, square;
    for (int i = 0; i < q->of->num_gpus; i++)
        if (!(q->of->gpus[i].prior_error > 0))
            sum += rows_log_likelihood(&q->of->gpus[i], q->core, x);
    for (int i = 0; i < q->num_own; i++)
        sum += log(given_shared(&q->own[i], x, &mean, &square));
    return sum;
}

/* Computes the likelihood of a GPU's rows on a grid of shifts. gpu_density, which also has the
 * prior, only decides where the grid lies. */
static void add_own_part(struct question *q, const struct learned_gpu *gpu, double low, double high)
{
    struct own_part *own = &q->own[q->num_own++];
    struct density *grid = &own->likelihood;
    own->gpu = q->gpu = gpu;
    fill_closely(q, gpu_density, low, high, grid);
    for (int i = 0; i <= GRID; i++)
        grid->weight[i] = rows_log_likelihood(gpu, q->core, grid->low + i * grid->step);
    from_logarithms(grid);
}

static struct moments moments_on(const struct own_part *own, const struct density *shared)
{
    double mean = 0, square = 0;
    for (int i = 0; i <= GRID; i++) {
        double mean_here, square_here;
        given_shared(own, shared->low + i * shared->step, &mean_here, &square_here);
        mean += shared->weight[i] * mean_here;
        square += shared->weight[i] * square_here;
    }
    return (struct moments){ mean, sqrt(fmax(square - mean * mean, 0)) };
}

static void set_factor(const struct learn_prior *prior, struct moments found, double width,
                       struct learned_factor *out)
{
    out->time_ratio = exp(found.mean);
    out->ratio_error = found.deviation;
    out->shift = shift_left(prior, found.deviation, width);
}

/* `width` is the mean of the new rows' own half widths. */
static void settle(const struct learn_prior *prior, double width, struct learned_stack *of)
{
    struct question q = { .of = of, .core = prior->core };
    struct density shared;
    double low = 0, high = 0, widest = of->prior_error;
    for (int i = 0; i < of->num_gpus; i++) {
        const struct learned_gpu *gpu = &of->gpus[i];
        widest = fmax(widest, hypot(of->prior_error, gpu->prior_error));
        for (int k = 0; k < gpu->num_ratios; k++) {
            low = fmin(low, gpu->ratios[k]);
            high = fmax(high, gpu->ratios[k]);
        }
    }
    low = fmin(low, -REACH * widest);
    high = fmax(high, REACH * widest);
    for (int i = 0; i < of->num_gpus; i++)
        if (of->gpus[i].prior_error > 0)
            add_own_part(&q, &of->gpus[i], low, high);
    struct moments found = fill_closely(&q, shared_density, low, high, &shared);
    set_factor(prior, found, width, &of->factor);
    for (int i = 0, own = 0; i < of->num_gpus; i++) {
        struct learned_gpu *gpu = &of->gpus[i];
        set_factor(prior, gpu->prior_error > 0 ? moments_on(&q.own[own++], &shared) : found, width,
                   &gpu->factor);
    }
}

/* --- lessons ------------------------------------------------------------------------------- */

static void copy_earlier(const struct learned *earlier, struct learned *to)
{
    for (int i = 0; earlier && i < earlier->count; i++) {
        struct learned_stack *entry = &to->at[to->count++];
        *entry = earlier->at[i];
        for (int g = 0; g < entry->num_gpus; g++) {
            struct learned_gpu *gpu = &entry->gpus[g];
            double *ratios = ARENA_ARRAY(&to->arena, double, (size_t)gpu->num_ratios);
            memcpy(ratios, gpu->ratios, (size_t)gpu->num_ratios * sizeof *ratios);
            gpu->ratios = ratios;
        }
    }
}

/* The two parts of the shift before any run of the user's is known. */
struct shift_parts {
    struct shift_prior shared, own;
};

/* If the stack's or the GPU's file states a wider interval than its tier has, the shift is as much
 * larger. The shifts of experts were not found by leaving sources out; only their interval is
 * known. */
static struct shift_parts shift_before(const struct learn_prior *prior, const struct run_case *of)
{
    double width = interval_source_error(of->system, &of->model);
    enum tier tier = system_tier(of->system, &of->model);
    struct shift_prior all = prior->of[tier], stack = prior->of[TIER_NEW_STACK];
    double share = tier == TIER_NEW_GPU ? fmin(stack.scale / all.scale, 1) : 1;
    if (width > 0 && (of->is_moe || !(prior->width[tier] > 0)))
        all.scale = width / normal_90;
    else if (width > 0)
        all.scale *= width / prior->width[tier];
    return (struct shift_parts){
        .shared = { share * all.scale, share < 1 ? stack.freedom : all.freedom },
        .own = { sqrt(1 - share * share) * all.scale, all.freedom },
    };
}

static bool is_new(const struct lessons *out, const struct learned_stack *entry)
{
    return entry - out->overlay.at >= out->num_earlier;
}

/* The entry of a stack; NULL if there are too many stacks. If a stack's rows have different priors,
 * a new entry gets the widest of them. */
static struct learned_stack *entry_of(struct lessons *out, const struct run_case *of,
                                      const struct shift_prior *shared)
{
    struct learned *overlay = &out->overlay;
    struct learned_stack *entry =
        (struct learned_stack *)learned_find(overlay, &of->system->stack, of->is_moe);
    if (!entry && overlay->count == MOST_LEARNED)
        return NULL;
    if (!entry) {
        entry = &overlay->at[overlay->count++];
        *entry = (struct learned_stack){ .experts = of->is_moe, .factor.time_ratio = 1 };
        snprintf(entry->stack, sizeof entry->stack, "%s", stack_family(&of->system->stack));
    }
    if (is_new(out, entry) && shared->scale > entry->prior_error) {
        entry->prior_error = entry->factor.ratio_error = shared->scale;
        entry->prior_freedom = shared->freedom;
    }
    return entry;
}

/* The lesson to which one of `rows` cases belongs; NULL if there are too many stacks or GPUs. */
static struct lesson *lesson_of(struct lessons *out, const struct learn_prior *prior, int rows,
                                const struct run_case *of)
{
    const char *profile = of->system->profile.name;
    struct shift_parts before = shift_before(prior, of);
    struct learned_stack *entry = entry_of(out, of, &before.shared);
    if (!entry)
        return NULL;
    struct learned_gpu *gpu = (struct learned_gpu *)learned_gpu_find(entry, profile);
    for (int i = 0; i < out->count; i++)
        if (gpu && out->at[i].after == entry && &entry->gpus[out->at[i].gpu] == gpu)
            return &out->at[i];
    if (!gpu) {
        if (entry->num_gpus == MOST_LEARNED_GPUS)
            return NULL;
        gpu = &entry->gpus[entry->num_gpus++];
        *gpu = (struct learned_gpu){ .prior_error = before.own.scale,
                                     .prior_freedom = before.own.freedom,
                                     .factor = entry->factor };
        gpu->factor.ratio_error = hypot(gpu->factor.ratio_error, before.own.scale);
        snprintf(gpu->profile, sizeof gpu->profile, "%s", profile);
    }
    struct lesson *lesson = &out->at[out->count++];
    double *ratios =
        ARENA_ARRAY(&out->overlay.arena, double, (size_t)gpu->num_ratios + (size_t)rows);
    if (gpu->num_ratios > 0)
        memcpy(ratios, gpu->ratios, (size_t)gpu->num_ratios * sizeof *ratios);
    gpu->ratios = ratios;
    *lesson = (struct lesson){ .after = entry,
                               .gpu = (int)(gpu - entry->gpus),
                               .ratio_before = gpu->factor.time_ratio,
                               .error_before = gpu->factor.ratio_error,
                               .ratios = ratios };
    return lesson;
}

/* Each stack's factors follow from all of its rows. */
static void settle_all(const struct learn_prior *prior, struct lessons *out)
{
    for (int i = 0; i < out->overlay.count; i++) {
        struct learned_stack *entry = &out->overlay.at[i];
        double widths = 0;
        int rows = 0;
        for (int k = 0; k < out->count; k++)
            if (out->at[k].after == entry) {
                double own = entry->gpus[out->at[k].gpu].prior_error;
                if (is_new(out, entry))
                    out->at[k].error_before = hypot(entry->prior_error, own);
                widths += out->at[k].widths;
                rows += out->at[k].rows;
            }
        if (rows > 0)
            settle(prior, widths / rows, entry);
    }
}

void learn_from(const struct run_case *cases, const struct run_prediction *predictions, int count,
                const struct learn_prior *prior, const struct learned *earlier, struct lessons *out)
{
    struct arena *arena = &out->overlay.arena;
    *out = (struct lessons){ 0 };
    size_t room = (size_t)count + (size_t)(earlier ? earlier->count : 0);
    out->overlay.at =
        ARENA_ARRAY(arena, struct learned_stack, room < MOST_LEARNED ? room : MOST_LEARNED);
    out->at = ARENA_ARRAY(arena, struct lesson, room);
    out->reason = ARENA_ARRAY(arena, const char *, (size_t)count);
    copy_earlier(earlier, &out->overlay);
    out->num_earlier = out->overlay.count;
    for (int i = 0; i < count; i++)
        out->reason[i] = why_unusable(&cases[i], &predictions[i], arena);
    drop_repeats(cases, count, out->reason);
    for (int i = 0; i < count; i++) {
        if (*out->reason[i])
            continue;
        struct lesson *lesson = lesson_of(out, prior, count, &cases[i]);
        if (!lesson) {
            out->reason[i] = "there are too many stacks or kinds of GPUs to learn this one";
            continue;
        }
        lesson->rows++;
        lesson->widths += own_width(&cases[i].system->stack, &predictions[i]);
        lesson->ratios[lesson->after->gpus[lesson->gpu].num_ratios++] =
            log_ratio(&cases[i], &predictions[i]);
        out->used++;
    }
    settle_all(prior, out);
}
