/* Learns the ratio of measured to predicted time of a stack. A row is one measured run. The shift
 * is the error that all runs of a source have in common; a source is the publication or user that
 * rows come from. */
#include "calibration/learn/learn.h"

#include "base/normal.h"
#include "base/text.h"
#include "sim/engine/interval.h"

#include <math.h>
#include <string.h>

const double most_learned_factor = 3;

/* Number of standard deviations within which this share of normal errors lies. */
static double normal_reach(double share)
{
    return normal_quantile((1 + share) / 2);
}

/* --- the prior ----------------------------------------------------------------------------- */

bool learn_prior_find(const struct source_shifts *shifts, const char *without,
                      struct learn_prior *out, struct err *err)
{
    double shifts2 = 0, scatters2 = 0;
    *out = (struct learn_prior){ 0 };
    for (int i = 0; i < shifts->count; i++) {
        const struct source_shift *of = &shifts->at[i];
        if (of->groups < FEWEST_SHIFT_ROWS || (without && strcmp(of->source, without) == 0))
            continue;
        shifts2 += of->bias * of->bias;
        scatters2 += of->scatter * of->scatter;
        out->sources++;
    }
    if (out->sources < 2 || !(shifts2 > 0) || !(scatters2 > 0))
        return err_set(err, ERR_INPUT, "left_out.json",
                       "expected two or more sources with at least %d rows each; found %d",
                       FEWEST_SHIFT_ROWS, out->sources);
    out->shift = sqrt(shifts2 / out->sources);
    out->scatter = sqrt(scatters2 / out->sources);
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

/* Sums over the rows of one stack and one kind of model. */
struct sums {
    int rows;
    double logs;
    double widths; /* sum of the predictions' own half widths */
};

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

static void settle(const struct learn_prior *prior, const struct sums *sums, struct lesson *lesson)
{
    struct learned_stack *after = lesson->after;
    double before2 = lesson->error_before * lesson->error_before;
    double scatter2 = prior->scatter * prior->scatter;
    double precision = 1 / before2 + sums->rows / scatter2;
    double mean = (log(lesson->ratio_before) / before2 + sums->logs / scatter2) / precision;
    after->time_ratio = exp(mean);
    after->ratio_error = sqrt(1 / precision);
    after->shift = shift_left(prior, after->ratio_error, sums->widths / sums->rows);
    after->runs += sums->rows;
}

static void copy_earlier(const struct learned *earlier, struct learned *to)
{
    for (int i = 0; earlier && i < earlier->count; i++) {
        struct learned_stack *entry = &to->at[to->count++];
        *entry = earlier->at[i];
        for (int k = 0; k < entry->num_profiles; k++)
            entry->profiles[k] = arena_text(&to->arena, entry->profiles[k]);
    }
}

/* The standard deviation of the shift before the user's runs are taken into account. */
static double shift_before(const struct learn_prior *prior, const struct run_case *of)
{
    double width = interval_source_error(of->system, &of->model);
    return width > 0 ? width / normal_90 : prior->shift;
}

/* The lesson (what is learned about one stack and kind of model) to which a case belongs. If its
 * cases ran on several GPUs, it gets the widest of their priors. */
static struct lesson *lesson_of(struct lessons *out, const struct learn_prior *prior,
                                const struct run_case *of)
{
    const char *stack = of->system->stack.name;
    bool experts = of->is_moe;
    struct learned *overlay = &out->overlay;
    struct learned_stack *entry = (struct learned_stack *)learned_find(overlay, stack, experts);
    for (int i = 0; i < out->count; i++)
        if (out->at[i].after == entry) {
            if (entry->runs == 0)
                out->at[i].error_before = fmax(out->at[i].error_before, shift_before(prior, of));
            return &out->at[i];
        }
    struct lesson *lesson = &out->at[out->count++];
    *lesson = (struct lesson){ entry, 1, shift_before(prior, of) };
    if (entry) {
        lesson->ratio_before = entry->time_ratio;
        lesson->error_before = entry->ratio_error;
        return lesson;
    }
    lesson->after = &overlay->at[overlay->count++];
    *lesson->after = (struct learned_stack){ .experts = experts };
    snprintf(lesson->after->stack, sizeof lesson->after->stack, "%s", stack);
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
    struct sums *sums = ARENA_ARRAY(arena, struct sums, room);
    copy_earlier(earlier, &out->overlay);
    for (int i = 0; i < count; i++)
        out->reason[i] = why_unusable(&cases[i], &predictions[i], arena);
    drop_repeats(cases, count, out->reason);
    for (int i = 0; i < count; i++) {
        if (*out->reason[i])
            continue;
        const struct system *system = cases[i].system;
        struct lesson *lesson = lesson_of(out, prior, &cases[i]);
        struct sums *sum = &sums[lesson - out->at];
        sum->rows++;
        sum->logs += log_ratio(&cases[i], &predictions[i]);
        sum->widths += own_width(&system->stack, &predictions[i]);
        add_profile(lesson->after, system->profile.name, arena);
        out->used++;
    }
    for (int i = 0; i < out->count; i++)
        settle(prior, &sums[i], &out->at[i]);
}
