/* Prints the scores of predictions as tables. */
#include "base/units.h"
#include "cli/score/validation.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void validation_add_percent(struct text *out, double value, bool with_sign)
{
    char word[32] = "-";
    if (isfinite(value))
        snprintf(word, sizeof word, with_sign ? "%+.1f %%" : "%.1f %%", 100 * value);
    text_add_padded(out, word, -10);
}

static void add_score(struct text *out, const char *name, int width, const struct score *score)
{
    char groups[16];
    snprintf(groups, sizeof groups, "%d", score->groups);
    text_add(out, "  ");
    text_add_padded(out, name, width);
    text_add_padded(out, groups, -8);
    validation_add_percent(out, score->median, false);
    validation_add_percent(out, score->mean, false);
    validation_add_percent(out, score->p90, false);
    validation_add_percent(out, score->worst, false);
    validation_add_percent(out, score->bias, true);
    if (isfinite(score->coverage))
        text_add(out, "%7.0f %%", 100 * score->coverage);
    text_add(out, "\n");
}

static int widest_source(const struct scores *scores)
{
    int width = 8;
    for (int i = 0; i < scores->num_sources; i++) {
        int columns = text_columns(scores->sources[i].source);
        width = columns > width ? columns : width;
    }
    return width + 1;
}

/* Selects the score of fitted, held-out or all rows. */
typedef const struct score *score_part(const struct split_score *split);

static const struct score *fitted_part(const struct split_score *split)
{
    return &split->fitted;
}

static const struct score *not_fitted_part(const struct split_score *split)
{
    return &split->not_fitted;
}

static bool has_groups(const struct scores *scores, enum score_kind kind, score_part *part)
{
    for (int i = 0; i < scores->num_sources; i++)
        if (part(&scores->sources[i].kind[kind])->groups > 0)
            return true;
    return false;
}

static void add_table(struct text *out, const struct scores *scores, const char *title,
                      enum score_kind kind, score_part *part)
{
    static const char *const heads[] = { "groups", "median", "mean", "P90", "worst", "bias" };
    int width = widest_source(scores);
    if (!has_groups(scores, kind, part))
        return;
    text_add(out, "\n%s\n  ", title);
    text_add_padded(out, "source", width);
    for (int i = 0; i < 6; i++)
        text_add_padded(out, heads[i], i == 0 ? -8 : -10);
    text_add(out, kind == SCORE_MEMORY ? "\n" : "  covered\n");
    for (int i = 0; i < scores->num_sources; i++) {
        const struct score *score = part(&scores->sources[i].kind[kind]);
        if (score->groups > 0)
            add_score(out, scores->sources[i].source, width, score);
    }
}

static void add_tallies(struct text *out, const struct tallies *tallies, int most)
{
    int shown = tallies->count < most ? tallies->count : most;
    for (int i = 0; i < shown; i++)
        text_add(out, "  %6d  %s\n", tallies->at[i].count, tallies->at[i].text);
    if (tallies->count > shown)
        text_add(out, "          and %d more\n", tallies->count - shown);
}

static void add_choice(struct text *out, const char *what, const char *chosen)
{
    if (chosen)
        text_add(out, "%s %s for every row", what, chosen);
    else
        text_add(out, "for each row the %s that match.json chooses", what);
}

static void add_choices(struct text *out, const struct options *options)
{
    add_choice(out, "cluster", options->cluster);
    text_add(out, ", ");
    add_choice(out, "stack", options->stack);
}

static void add_assumptions(struct text *out, const struct validation *v,
                            const struct options *options)
{
    struct tallies tallies = validation_assumptions(v);
    text_add(out, "Assumed: ");
    if (!options->cluster && !options->stack)
        text_add(out, "for each row the cluster and the stack that match.json chooses");
    else
        add_choices(out, options);
    text_add(out, tallies.count > 0
                      ? "; further assumptions, with the number of rows that need them:\n"
                      : "\n");
    add_tallies(out, &tallies, options->verbose ? INT_MAX : 12);
    text_add(out, "\n");
    free(tallies.at);
}

static void add_skipped(struct text *out, const struct validation *v, bool all)
{
    struct tallies tallies = validation_skips(v);
    if (tallies.count > 0)
        text_add(out, "\nSkipped rows\n");
    add_tallies(out, &tallies, all ? INT_MAX : 20);
    free(tallies.at);
}

static void add_worst(struct text *out, const struct validation *v)
{
    if (v->scores.num_scored > 0)
        text_add(out, "\nWorst rows\n");
    for (int i = 0; i < v->scores.num_scored && i < NUM_WORST; i++) {
        int row = v->scores.worst[i];
        char predicted[32], measured[32];
        units_show(v->predictions[row].step_s, QUANTITY_SECONDS, predicted, sizeof predicted);
        units_show(run_measured_s(&v->rows.at[row]), QUANTITY_SECONDS, measured, sizeof measured);
        text_add(out, "  ");
        text_add_padded(out, v->rows.at[row].id, 28);
        text_add(out, " predicted ");
        text_add_padded(out, predicted, -8);
        text_add(out, ", measured ");
        text_add_padded(out, measured, -8);
        validation_add_percent(out, run_error(&v->cases[row], &v->predictions[row]), true);
        text_add(out, "\n");
    }
}

static void add_coverage(struct text *out, const struct score *score)
{
    if (score->groups > 0)
        text_add(out, "Measured time in the 90 %% interval: %.1f %% of the %d held-out times\n",
                 100 * score->coverage, score->groups);
}

static void add_tiers(struct text *out, const struct scores *scores)
{
    static const char *const words[NUM_TIERS] = { "this stack and GPU were measured",
                                                  "this stack was never measured",
                                                  "this GPU was never measured" };
    for (int tier = 0; tier < NUM_TIERS; tier++) {
        const struct score *score = &scores->tiers[tier];
        if (score->groups == 0)
            continue;
        text_add(out, "  ");
        text_add_padded(out, words[tier], 34);
        text_add(out, "%6d groups, median %.1f %%, covered %.0f %%\n", score->groups,
                 100 * score->median, 100 * score->coverage);
    }
}

static void add_preferences(struct text *out, const struct preferences *preferences, int width)
{
    if (preferences->count == 0)
        return;
    text_add(out, "\nOrder of plans: held-out runs on one node that differ only in their plan\n  ");
    text_add_padded(out, "source", width);
    text_add(out, "  strata   plans  Kendall tau      P10  best chosen  loss, P90\n");
    for (int i = 0; i < preferences->count; i++) {
        const struct preference *of = &preferences->at[i];
        text_add(out, "  ");
        text_add_padded(out, of->source, width);
        text_add(out, "%8d%8d%13.2f%9.2f%11.0f %%%9.1f %%\n", of->strata, of->plans, of->tau,
                 of->tau_p10, 100 * of->near_best, 100 * (exp(of->loss) - 1));
    }
    text_add(out, "  best chosen: strata in which the plan with the shortest predicted time was "
                  "measured within 3 %% of the best\n");
}

static void add_regret(struct text *out, const struct choices *choices, int width)
{
    if (choices->count == 0)
        return;
    text_add(out, "\nRegret: how much slower the plan with the shortest predicted time was than "
                  "the fastest plan, among runs of one model, batch and number of GPUs\n  ");
    text_add_padded(out, "source", width);
    text_add(out, "  strata   plans  within 2 %%     mean    worst   P(best)  was best  Brier\n");
    for (int i = 0; i < choices->count; i++) {
        const struct choice *of = &choices->at[i];
        text_add(out, "  ");
        text_add_padded(out, of->source, width);
        text_add(out, "%8d%8d%10.0f %%%7.1f %%%7.1f %%%8.0f %%%8.0f %%%7.2f\n", of->strata,
                 of->plans, 100 * of->close, 100 * of->mean, 100 * of->worst, 100 * of->stated,
                 100 * of->was, of->brier);
    }
}

static void add_intervals(struct text *out, const struct interval_needs *needs)
{
    if (needs->count > 0)
        text_add(out, "\nHalf width of the 90 %% interval that held-out rows need, in log time\n  "
                      "stack or profile            groups   needed   stated\n");
    for (int i = 0; i < needs->count; i++) {
        const struct interval_need *of = &needs->at[i];
        text_add(out, "  %-8s", of->is_of_stack ? "stack" : "profile");
        text_add_padded(out, of->name, 20);
        text_add(out, "%6d", of->groups);
        text_add(out, isfinite(of->needed) ? "%9.3f" : "        -", of->needed);
        text_add(out, "%9.3f\n", of->stated);
    }
}

static void add_suspect(struct text *out, const struct suspect *suspect, double mean)
{
    text_add(out, "changing `%s` of the %s by %+.0f %% would ", suspect->constant,
             suspect->is_of_stack ? "stack" : "profile", 100 * (exp(suspect->change) - 1));
    if (suspect->left < 0.02 * mean)
        text_add(out, "explain the errors");
    else
        text_add(out, "reduce the mean error from %.1f to %.1f %%", 100 * mean,
                 100 * suspect->left);
}

void validation_add_reason(struct text *out, const struct diagnosis *of)
{
    int part = diagnosis_part(of);
    text_add(out, "%s: %.0f %% of the step", time_part_table[part].label, 100 * of->share[part]);
    if (of->usual[part] > 0)
        text_add(out, ", %.0f %% on average in its source", 100 * of->usual[part]);
    text_add(out, "; ");
    if (of->num_suspects == 0 || of->suspects[0].left > 0.9 * of->mean)
        text_add(out, "no single constant explains the errors");
    else
        add_suspect(out, &of->suspects[0], of->mean);
    for (int i = 0; i < of->traits.count; i++)
        text_add(out, "%s%s", i == 0 ? "; the errors depend on " : ", ", of->traits.column[i]);
    if (of->traits.count > 0)
        text_add(out, " (which explains %.0f %% of their variance)", 100 * of->traits.explained);
}

static void add_why(struct text *out, const struct validation *v, int width)
{
    if (v->why.num_sources > 0)
        text_add(out, "\nPossible causes of errors that the rows of a source share\n");
    for (int i = 0; i < v->why.num_sources; i++) {
        text_add(out, "  ");
        text_add_padded(out, v->why.sources[i].source, width);
        text_add(out, "bias %+.1f %%: ", 100 * v->why.sources[i].bias);
        validation_add_reason(out, &v->why.sources[i]);
        text_add(out, "\n");
    }
    if (v->why.num_rows > 0)
        text_add(out, "\nPossible causes of the largest errors\n");
    for (int i = 0; i < v->why.num_rows; i++) {
        text_add(out, "  ");
        text_add_padded(out, v->rows.at[v->why.rows[i].row].id, width + 4);
        text_add(out, "%+.1f %%: ", 100 * v->why.rows[i].bias);
        validation_add_reason(out, &v->why.rows[i]);
        text_add(out, "\n");
    }
}

void validation_print_text(const struct validation *v, const struct options *options)
{
    const struct scores *scores = &v->scores;
    struct text out = { 0 };
    if (!options->quiet)
        add_assumptions(&out, v, options);
    text_add(&out,
             "%d row%s, %d configuration%s to score, %d scored; errors are "
             "|log(predicted / measured)|\n",
             scores->num_rows, scores->num_rows == 1 ? "" : "s", scores->num_core_groups,
             scores->num_core_groups == 1 ? "" : "s", scores->num_scored);
    add_table(&out, scores, "Step time, dense, held-out rows", SCORE_DENSE, not_fitted_part);
    add_table(&out, scores, "Step time, dense, fitted rows", SCORE_DENSE, fitted_part);
    add_table(&out, scores, "Step time, mixture of experts", SCORE_MOE, not_fitted_part);
    add_table(&out, scores, "Step time, mixture of experts, fitted", SCORE_MOE, fitted_part);
    add_table(&out, scores, "Memory, held-out rows", SCORE_MEMORY, not_fitted_part);
    add_table(&out, scores, "Memory, fitted rows", SCORE_MEMORY, fitted_part);
    if (isfinite(scores->mean_of_medians))
        text_add(&out, "\nMean over dense sources of the median: %.1f %%\n",
                 100 * scores->mean_of_medians);
    add_coverage(&out, &scores->all.not_fitted);
    add_tiers(&out, scores);
    add_preferences(&out, &v->preferences, widest_source(scores));
    add_regret(&out, &v->choices, widest_source(scores));
    if (options->verbose || options->fit.why)
        add_intervals(&out, &v->intervals);
    if (!options->quiet) {
        add_skipped(&out, v, options->verbose);
        add_worst(&out, v);
    }
    add_why(&out, v, widest_source(scores));
    fputs(text_get(&out), stdout);
    text_release(&out);
}
