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

static void add_profile(struct learned_stack *to, const char *profile, struct arena *arena)
{
    for (int i = 0; i < to->num_profiles; i++)
        if (strcmp(to->profiles[i], profile) == 0)
            return;
    if (to->num_profiles < MOST_LEARNED_GPUS)
        to->profiles[to->num_profiles++] = arena_text(arena, profile);
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

/* Steps of a grid, and the standard deviations that it reaches to either side. */
enum { GRID = 2000, REACH = 8 };

/* Logarithm of the density of the factor's logarithm x, but for a constant. */
static double log_density(const struct learned_stack *of, double core, double x)
{
    double from_prior = (x - log(of->prior_ratio)) / of->prior_error;
    double freedom = of->prior_freedom;
    double sum = freedom > 0 ? -(freedom + 1) / 2 * log1p(from_prior * from_prior / freedom)
                             : -from_prior * from_prior / 2;
    for (int i = 0; i < of->num_ratios; i++) {
        double from_row = (of->ratios[i] - x) / core;
        sum -= 1.5 * log1p(from_row * from_row / 2);
    }
    return sum;
}

struct moments {
    double mean, deviation;
};

/* Mean and standard deviation of this density between two values. */
static struct moments moments_between(const struct learned_stack *of, double core, double low,
                                      double high)
{
    double density[GRID + 1], most = -HUGE_VAL, weight = 0;
    struct moments out = { 0, 0 };
    double step = (high - low) / GRID;
    for (int i = 0; i <= GRID; i++) {
        density[i] = log_density(of, core, low + i * step);
        most = fmax(most, density[i]);
    }
    for (int i = 0; i <= GRID; i++) {
        density[i] = exp(density[i] - most);
        weight += density[i];
        out.mean += density[i] * (low + i * step);
    }
    out.mean /= weight;
    for (int i = 0; i <= GRID; i++)
        out.deviation += density[i] * pow(low + i * step - out.mean, 2);
    out.deviation = sqrt(out.deviation / weight);
    return out;
}

/* The second grid is for many rows: the density is then narrower than the steps of the first. */
static struct moments posterior(const struct learned_stack *of, double core)
{
    double centre = log(of->prior_ratio);
    double low = centre - REACH * of->prior_error, high = centre + REACH * of->prior_error;
    for (int i = 0; i < of->num_ratios; i++) {
        low = fmin(low, of->ratios[i]);
        high = fmax(high, of->ratios[i]);
    }
    struct moments first = moments_between(of, core, low, high);
    double around = REACH * fmax(first.deviation, (high - low) / GRID);
    return moments_between(of, core, fmax(low, first.mean - around),
                           fmin(high, first.mean + around));
}

/* `widths` is the sum of the new rows' own half widths. */
static void settle(const struct learn_prior *prior, int rows, double widths,
                   struct learned_stack *after)
{
    struct moments found = posterior(after, prior->core);
    after->time_ratio = exp(found.mean);
    after->ratio_error = found.deviation;
    after->shift = shift_left(prior, after->ratio_error, widths / rows);
    after->runs += rows;
}

static void copy_earlier(const struct learned *earlier, struct learned *to)
{
    for (int i = 0; earlier && i < earlier->count; i++) {
        struct learned_stack *entry = &to->at[to->count++];
        const struct learned_stack *from = &earlier->at[i];
        *entry = *from;
        double *ratios = ARENA_ARRAY(&to->arena, double, (size_t)from->num_ratios + 1);
        for (int k = 0; k < from->num_ratios; k++)
            ratios[k] = from->ratios[k];
        entry->ratios = ratios;
        for (int k = 0; k < entry->num_profiles; k++)
            entry->profiles[k] = arena_text(&to->arena, entry->profiles[k]);
    }
}

/* The shift before any run of the user's is known. If the stack's or the GPU's file states a wider
 * interval than its tier has, the shift is as much larger. Those of experts were not found by
 * leaving sources out; only their interval is known. */
static struct shift_prior shift_before(const struct learn_prior *prior, const struct run_case *of)
{
    double width = interval_source_error(of->system, &of->model);
    enum tier tier = system_tier(of->system, &of->model);
    struct shift_prior before = prior->of[tier];
    if (width > 0 && (of->is_moe || !(prior->width[tier] > 0)))
        before.scale = width / normal_90;
    else if (width > 0)
        before.scale *= width / prior->width[tier];
    return before;
}

/* Without an earlier entry the prior is the tier's. An entry that does not hold its runs' ratios is
 * itself the prior. */
static void begin_lesson(struct lesson *lesson, const struct shift_prior *before, int rows,
                         struct arena *arena)
{
    struct learned_stack *after = lesson->after;
    if (after->runs == 0) {
        after->prior_ratio = 1;
        after->prior_error = before->scale;
        after->prior_freedom = before->freedom;
        after->time_ratio = 1;
        after->ratio_error = before->scale;
    } else if (after->num_ratios == 0) {
        after->prior_ratio = after->time_ratio;
        after->prior_error = after->ratio_error;
        after->prior_freedom = 0;
    }
    lesson->ratio_before = after->time_ratio;
    lesson->error_before = after->ratio_error;
    double *ratios = ARENA_ARRAY(arena, double, (size_t)(after->num_ratios + rows));
    for (int i = 0; i < after->num_ratios; i++)
        ratios[i] = after->ratios[i];
    after->ratios = lesson->ratios = ratios;
}

/* The lesson to which one of `rows` cases belongs. If its GPUs differ, its prior is the widest of
 * theirs. */
static struct lesson *lesson_of(struct lessons *out, const struct learn_prior *prior, int rows,
                                const struct run_case *of)
{
    const char *stack = of->system->stack.name;
    bool experts = of->is_moe;
    struct learned *overlay = &out->overlay;
    struct shift_prior before = shift_before(prior, of);
    struct learned_stack *entry = (struct learned_stack *)learned_find(overlay, stack, experts);
    for (int i = 0; i < out->count; i++)
        if (out->at[i].after == entry) {
            if (entry->runs == 0 && before.scale > entry->prior_error) {
                entry->prior_error = out->at[i].error_before = before.scale;
                entry->prior_freedom = before.freedom;
            }
            return &out->at[i];
        }
    struct lesson *lesson = &out->at[out->count++];
    if (!entry) {
        entry = &overlay->at[overlay->count++];
        *entry = (struct learned_stack){ .experts = experts };
        snprintf(entry->stack, sizeof entry->stack, "%s", stack);
    }
    *lesson = (struct lesson){ .after = entry };
    begin_lesson(lesson, &before, rows, &overlay->arena);
    return lesson;
}

void learn_from(const struct run_case *cases, const struct run_prediction *predictions, int count,
                const struct learn_prior *prior, const struct learned *earlier, struct lessons *out)
{
    struct arena *arena = &out->overlay.arena;
    *out = (struct lessons){ 0 };
    size_t room = (size_t)count + (size_t)(earlier ? earlier->count : 0);
    out->overlay.at = ARENA_ARRAY(arena, struct learned_stack, room);
    out->at = ARENA_ARRAY(arena, struct lesson, room);
    out->reason = ARENA_ARRAY(arena, const char *, (size_t)count);
    copy_earlier(earlier, &out->overlay);
    for (int i = 0; i < count; i++)
        out->reason[i] = why_unusable(&cases[i], &predictions[i], arena);
    drop_repeats(cases, count, out->reason);
    for (int i = 0; i < count; i++) {
        if (*out->reason[i])
            continue;
        const struct system *system = cases[i].system;
        struct lesson *lesson = lesson_of(out, prior, count, &cases[i]);
        lesson->rows++;
        lesson->widths += own_width(&system->stack, &predictions[i]);
        lesson->ratios[lesson->after->num_ratios++] = log_ratio(&cases[i], &predictions[i]);
        add_profile(lesson->after, system->profile.name, arena);
        out->used++;
    }
    for (int i = 0; i < out->count; i++)
        settle(prior, out->at[i].rows, out->at[i].widths, out->at[i].after);
}
