/* Writes the page about the accuracy of predictions. A source is the paper or log that states
 * measured rows; a tier says whether other sources measured the same stack and GPU. */
#include "base/file.h"
#include "base/random.h"
#include "base/statistics.h"
#include "calibration/fit/source_shifts.h"
#include "cli/score/validation.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tables ---------------------------------------------------------------------------------- */

static void add_cell(struct text *out, double value, const char *format)
{
    text_add(out, " ");
    if (isfinite(value))
        text_add(out, format[0] == '+' ? "%+.1f %%" : "%.1f %%", 100 * value);
    else
        text_add(out, "-");
    text_add(out, " |");
}

static void add_score(struct text *out, const char *name, const struct score *score)
{
    text_add(out, "| %s | %d |", name, score->groups);
    add_cell(out, score->median, "");
    add_cell(out, score->mean, "");
    add_cell(out, score->p90, "");
    add_cell(out, score->worst, "");
    add_cell(out, score->bias, "+");
    if (isfinite(score->coverage))
        text_add(out, " %.0f %%", 100 * score->coverage);
    text_add(out, " |\n");
}

static const struct score *part_of(const struct split_score *split, bool fitted)
{
    return fitted ? &split->fitted : &split->not_fitted;
}

static void add_scores(struct text *out, const struct scores *scores, const char *title,
                       enum score_kind kind, bool fitted)
{
    text_add(out,
             "\n## %s\n\n| source | groups | median | mean | P90 | worst | bias | covered |\n"
             "|---|---:|---:|---:|---:|---:|---:|---:|\n",
             title);
    for (int i = 0; i < scores->num_sources; i++) {
        const struct score *score = part_of(&scores->sources[i].kind[kind], fitted);
        if (score->groups > 0)
            add_score(out, scores->sources[i].source, score);
    }
    if (kind == SCORE_DENSE && scores->all.all.groups > 0)
        add_score(out, "**all**", part_of(&scores->all, fitted));
}

enum { NUM_BOOTSTRAPS = 2000 };

/* The sources of one tier, or of several. */
struct tier_sources {
    const struct source_shift **at;
    double *covered; /* share of each source's rows */
    int count;
};

/* Draws of->count sources with replacement. Returns the share of their rows that are covered. */
static double drawn_share(const struct tier_sources *of, struct random *rng)
{
    double covered = 0, rows = 0;
    for (int i = 0; i < of->count; i++) {
        int k = random_below(rng, of->count);
        covered += of->covered[k] * of->at[k]->groups;
        rows += of->at[k]->groups;
    }
    return covered / rows;
}

/* Adds the means over sources, the share of covered rows, and the 90 % interval of this share by
 * the bootstrap over sources (Efron 1979). */
static void add_sources(struct text *out, const char *name, const struct tier_sources *of)
{
    struct random rng = random_new(1, 0);
    double medians = 0, covers = 0, covered = 0;
    double drawn[NUM_BOOTSTRAPS];
    int groups = 0;
    for (int i = 0; i < of->count; i++) {
        medians += of->at[i]->median;
        covers += of->covered[i];
        covered += of->covered[i] * of->at[i]->groups;
        groups += of->at[i]->groups;
    }
    for (int i = 0; i < NUM_BOOTSTRAPS; i++)
        drawn[i] = drawn_share(of, &rng);
    numbers_sort(drawn, NUM_BOOTSTRAPS);
    text_add(out,
             "| **%s** | %d sources | %d | %.1f %% | | | | %.0f %% of rows (%.0f to %.0f), %.0f %% "
             "of sources |\n",
             name, of->count, groups, 100 * medians / of->count, 100 * covered / groups,
             100 * sorted_quantile(drawn, NUM_BOOTSTRAPS, 0.05),
             100 * sorted_quantile(drawn, NUM_BOOTSTRAPS, 0.95), 100 * covers / of->count);
}

/* Adds a line for each tier, and one for the sources whose stack or GPU is new. */
static void add_tiers(struct text *out, const struct source_shifts *shifts)
{
    struct arena scratch = { 0 };
    size_t room = (size_t)shifts->count;
    struct tier_sources unseen = { ARENA_ARRAY(&scratch, const struct source_shift *, room),
                                   ARENA_ARRAY(&scratch, double, room), 0 };
    for (int tier = 0; tier < NUM_TIERS; tier++) {
        struct tier_sources own = { ARENA_ARRAY(&scratch, const struct source_shift *, room),
                                    ARENA_ARRAY(&scratch, double, room), 0 };
        for (int i = 0; i < shifts->count; i++) {
            const struct source_shift *of = &shifts->at[i];
            if (of->tier != tier)
                continue;
            double covered = shift_covers(of, shift_width(shifts, (enum tier)tier, of->source));
            own.covered[own.count] = covered;
            own.at[own.count++] = of;
            if (tier != TIER_SEEN) {
                unseen.covered[unseen.count] = covered;
                unseen.at[unseen.count++] = of;
            }
        }
        if (own.count > 0)
            add_sources(out, tier_names[tier], &own);
    }
    if (unseen.count > 0)
        add_sources(out, "new stack or GPU", &unseen);
    arena_release(&scratch);
}

static void add_left_out(struct text *out, const struct source_shifts *shifts)
{
    text_add(
        out,
        "\n## Sources that were left out of the fit\n\n"
        "Each source is predicted with constants that are fitted without any of its rows "
        "(`simsearch fit --leave-out\nSOURCE`). If no other source ran on its stack, the stack "
        "gets the medians of the other stacks' constants. If\nno other source ran on its GPU, the "
        "GPU's constants keep their priors. The tier is `seen` if other sources ran on its "
        "stack "
        "and\nGPU, `new_stack` if none ran on its stack, `new_gpu` if none ran on its GPU. Covered "
        "is the share of rows whose measured time is in the 90 %% interval of the tier; the\nwidth "
        "of this interval is fitted without the source. In parentheses is the 90 %% interval of "
        "the share by the bootstrap over sources.\n\n"
        "| source | tier | groups | median | P90 | worst | bias | covered |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < shifts->count; i++) {
        const struct source_shift *of = &shifts->at[i];
        double width = shift_width(shifts, (enum tier)of->tier, of->source);
        text_add(out, "| %s | %s | %d | %.1f %% | %.1f %% | %.1f %% | %+.1f %% | %.0f %% |\n",
                 of->source, tier_names[of->tier], of->groups, 100 * of->median, 100 * of->p90,
                 100 * of->worst, 100 * of->bias, 100 * shift_covers(of, width));
    }
    add_tiers(out, shifts);
    struct slice_trend trend = slice_trend_find(shifts, NULL);
    text_add(out,
             "\nThe shift of a source is the error that all of its rows share. The half width of "
             "its 90 %% interval, in log time,\nis %.2f for a new stack and %.2f for a new GPU. "
             "For a new stack, the square of\n%.2f ln(x / %.0f) is added to the square of the half "
             "width, where x is hidden size / tp.\n",
             shift_width(shifts, TIER_NEW_STACK, NULL), shift_width(shifts, TIER_NEW_GPU, NULL),
             trend.width, trend.usual);
}

static void add_order(struct text *out, const struct preferences *preferences)
{
    text_add(out,
             "\n## Is the best plan chosen?\n\n"
             "A stratum is a set of four or more held-out runs on one node that differ only in "
             "their plan. The table shows, over\nthe strata of a source, Kendall's tau between "
             "predicted and measured times (median and 10th percentile); the share\nof strata in "
             "which the plan with the shortest predicted time was measured within 3 %% of the "
             "best; and the 90th\npercentile of the loss, which is this plan's measured time "
             "relative to the best, minus 1.\n\n"
             "| source | strata | plans | median tau | P10 | best chosen | loss, P90 |\n"
             "|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < preferences->count; i++) {
        const struct preference *of = &preferences->at[i];
        text_add(out, "| %s | %d | %d | %.2f | %.2f | %.0f %% | %.1f %% |\n", of->source,
                 of->strata, of->plans, of->tau, of->tau_p10, 100 * of->near_best,
                 100 * (exp(of->loss) - 1));
    }
}

static void add_regret(struct text *out, const struct choices *choices)
{
    text_add(
        out,
        "\n## How much time is lost by choosing from predictions?\n\n"
        "Here a stratum is four or more plans of one model, batch and number of GPUs. The plan "
        "with the shortest predicted\ntime is chosen. The table shows how often its measured "
        "time is within 2 %% of the best, and the time that it loses\nagainst the best. P(best) "
        "is the mean predicted probability that the chosen plan is the fastest; the next "
        "column\nis the share of strata in which it was. The Brier score is the mean of (P - "
        "outcome)^2 (0 is perfect, 0.25 is a coin toss).\n\n"
        "| source | strata | plans | within 2 %% | mean loss | worst | P(best) | was best "
        "| Brier |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < choices->count; i++) {
        const struct choice *of = &choices->at[i];
        text_add(out, "| %s | %d | %d | %.0f %% | %.1f %% | %.1f %% | %.0f %% | %.0f %% | %.2f |\n",
                 of->source, of->strata, of->plans, 100 * of->close, 100 * (exp(of->mean) - 1),
                 100 * (exp(of->worst) - 1), 100 * of->stated, 100 * of->was, of->brier);
    }
}

/* --- sources of the numbers ------------------------------------------------------------------ */

/* Finds any system with this stack or profile. */
static const struct system *find_system(const struct validation *v, const struct interval_need *of)
{
    for (int i = 0; i < v->scores.num_scored; i++) {
        const struct system *system = v->cases[v->scores.worst[i]].system;
        const char *name = of->is_of_stack ? system->stack.name : system->profile.name;
        if (strcmp(name, of->name) == 0)
            return system;
    }
    return NULL;
}

static void add_basis(struct text *out, const struct validation *v, const struct interval_need *of)
{
    const struct system *system = find_system(v, of);
    if (!system)
        return;
    const char *source = of->is_of_stack ? system->stack.source : system->profile.source;
    int fitted = of->is_of_stack ? system->stack.num_fitted : system->profile.num_fitted;
    text_add(out, "| %s | %d | %d |", of->name, fitted, of->groups);
    text_add(out, isfinite(of->needed) ? " %.3f |" : " - |", of->needed);
    text_add(out, " %.3f |", of->stated);
    text_add(out, " %s |\n", source);
}

static void add_bases(struct text *out, const struct validation *v, bool of_stacks)
{
    text_add(out,
             "\n| %s | rows fitted on | rows scored, not fitted | needed | stated | sources of the "
             "constants |\n"
             "|---|---:|---:|---:|---:|---|\n",
             of_stacks ? "stack" : "profile");
    for (int i = 0; i < v->intervals.count; i++)
        if (v->intervals.at[i].is_of_stack == of_stacks)
            add_basis(out, v, &v->intervals.at[i]);
}

/* --- causes of errors ------------------------------------------------------------------------ */

static void add_why(struct text *out, const struct validation *v)
{
    text_add(
        out,
        "\n## Possible causes of errors\n\n"
        "Each constant of the profiles and stacks is raised by 1 %% in turn. For each source and "
        "for the worst rows the list\nnames the constant whose change would explain most of the "
        "error. It is only a possible cause: step times do not distinguish\nconstants with similar "
        "effects.\n\n");
    for (int i = 0; i < v->why.num_sources; i++) {
        text_add(out, "- `%s`, bias %+.1f %%: ", v->why.sources[i].source,
                 100 * v->why.sources[i].bias);
        validation_add_reason(out, &v->why.sources[i]);
        text_add(out, ".\n");
    }
    text_add(out, "\nThe worst rows:\n\n");
    for (int i = 0; i < v->why.num_rows; i++) {
        const struct run_row *row = &v->rows.at[v->why.rows[i].row];
        text_add(out, "- `%s` (%.0f GPUs, %s%s), %+.1f %%: ", row->id, row->n_gpus,
                 v->cases[v->why.rows[i].row].system->stack.name,
                 v->cases[v->why.rows[i].row].is_fitted ? ", fitted" : "",
                 100 * v->why.rows[i].bias);
        validation_add_reason(out, &v->why.rows[i]);
        text_add(out, ".\n");
    }
}

static void add_skipped(struct text *out, const struct validation *v)
{
    struct tallies tallies = validation_skips(v);
    if (tallies.count > 0)
        text_add(out, "\n## Rows that were not scored\n\n| rows | reason |\n|---:|---|\n");
    for (int i = 0; i < tallies.count; i++)
        text_add(out, "| %d | %s |\n", tallies.at[i].count, tallies.at[i].text);
    free(tallies.at);
}

/* --- the page -------------------------------------------------------------------------------- */

static const char protocol[] =
    "\n## Protocol\n\n"
    "1. Rows are scored if model, layout and micro-batch are known and a time was measured. If a "
    "configuration\n   was measured several times, only the last measurement is used.\n"
    "2. The error of a row is |log(predicted / measured)| of the step time or of tokens per "
    "second. FLOP/s and MFU are\n   not compared, because sources count FLOPs differently.\n"
    "3. Each source is scored separately, and the mean of their medians gives all sources the "
    "same weight.\n"
    "4. Rows on which a constant of the profile or stack was fitted are shown separately; "
    "`fitted_on` in the files of profiles\n   and stacks lists them. The other rows of the same "
    "source are held out, "
    "but they resemble the fitted ones, so predictions of a new\n   source may be worse.\n"
    "5. A time is covered if it lies in the 90 % interval of its prediction. The square of the "
    "interval's half width is\n   the sum of two squares: that of a row's scatter, from held-out "
    "rows, and that of a source's shift, from sources\n   that were left out of the fit. For a "
    "new stack, the square of the shift's change with hidden size / tp is added.\n";

static void add_page(struct text *out, const struct validation *v,
                     const struct source_shifts *shifts, const char *picture)
{
    const struct scores *scores = &v->scores;
    text_add(out,
             "# How accurate predictions are\n\n"
             "`make accuracy` writes this page from the measured runs in `calibration/measured`; "
             "`simsearch validate --why` prints the same results.\n\n"
             "A source is one published set of measured runs, and a row is one run. A stack is a "
             "training software with its constants,\na profile has the measured efficiencies of a "
             "GPU. The error of a row is |log(predicted / measured)|, in percent. In all\ntables a "
             "group is one configuration (one row), median, mean, P90 (90th percentile) and worst "
             "are those of the errors, bias\nis the median of log(predicted / measured) (negative: "
             "predictions are too short), and covered is the share of rows\nwhose measured time "
             "lies in the predicted 90 %% interval.\n\n"
             "%d rows, %d configurations to score, %d scored. ",
             scores->num_rows, scores->num_core_groups, scores->num_scored);
    if (isfinite(scores->mean_of_medians))
        text_add(out, "Mean over sources of the median error: %.1f %%. ",
                 100 * scores->mean_of_medians);
    if (scores->all.not_fitted.groups > 0)
        text_add(out, "%.1f %% of the %d held-out times lie in their 90 %% intervals.",
                 100 * scores->all.not_fitted.coverage, scores->all.not_fitted.groups);
    text_add(out, "\n");
    add_left_out(out, shifts);
    text_add(out,
             "\n## Scores by source\n\n![Predicted against measured step "
             "times](%s)\n",
             picture);
    add_scores(out, scores, "Step time, held-out rows", SCORE_DENSE, false);
    add_scores(out, scores, "Step time, rows in the fit", SCORE_DENSE, true);
    add_scores(out, scores, "Memory, held-out rows", SCORE_MEMORY, false);
    text_add(out, "%s", protocol);
    add_order(out, &v->preferences);
    add_regret(out, &v->choices);
    text_add(
        out,
        "\n## Interval widths of stacks and profiles\n\n"
        "`needed` is the half width, in log time, of the interval that contains a new row with "
        "90 %% probability (split\nconformal prediction, which needs at least 9 held-out rows). "
        "`stated` is the median half width of the\npredictions of these rows, which "
        "depends on the parts of each step. The numbers of a stack are from rows on\nmeasured "
        "profiles only.\n");
    add_bases(out, v, true);
    add_bases(out, v, false);
    add_why(out, v);
    add_skipped(out, v);
}

static bool write_file(const char *prefix, const char *suffix, const struct text *text,
                       struct err *err)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s", prefix, suffix);
    if (length < 0 || (size_t)length >= sizeof path)
        return err_set(err, ERR_USAGE, "--report", "the name is too long");
    return file_write(path, text_get(text), text->length, err);
}

bool validation_write_report(const struct validation *v, const char *prefix, struct err *err)
{
    struct text page = { 0 };
    struct text svg = { 0 };
    struct text picture = { 0 };
    struct source_shifts shifts;
    if (!source_shifts_load(&shifts, err)) {
        source_shifts_release(&shifts);
        return false;
    }
    text_add(&picture, "%s.svg", file_own_name(prefix));
    add_page(&page, v, &shifts, text_get(&picture));
    scatter_draw(v, &svg);
    bool ok = write_file(prefix, ".svg", &svg, err) && write_file(prefix, ".md", &page, err);
    text_release(&page);
    text_release(&svg);
    text_release(&picture);
    source_shifts_release(&shifts);
    return ok;
}
