#include "base/file.h"
#include "cli/validation.h"

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

static void add_order(struct text *out, const struct preferences *preferences)
{
    text_add(out,
             "\n## Is the best plan chosen?\n\n"
             "Of runs on one node that differ in nothing but their plan, four or more of them, "
             "and that nothing was\nfitted on: Kendall's tau between predicted and measured "
             "times, the share of such strata whose plan of\nleast predicted time was measured "
             "within 3 %% of the best, and what that plan lost, at the 90th percentile.\n\n"
             "| source | strata | plans | median tau | P10 | best chosen | loss, P90 |\n"
             "|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < preferences->count; i++) {
        const struct preference *of = &preferences->at[i];
        text_add(out, "| %s | %d | %d | %.2f | %.2f | %.0f %% | %.1f %% |\n", of->source,
                 of->strata, of->plans, of->tau, of->tau_p10, 100 * of->near_best,
                 100 * (exp(of->loss) - 1));
    }
}

/* --- what numbers rest on -------------------------------------------------------------------- */

/* Some system with this stack or profile. */
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
             "\n| %s | fitted on | scored, not fitted | needed | stated | from |\n"
             "|---|---:|---:|---:|---:|---|\n",
             of_stacks ? "stack" : "profile");
    for (int i = 0; i < v->intervals.count; i++)
        if (v->intervals.at[i].is_of_stack == of_stacks)
            add_basis(out, v, &v->intervals.at[i]);
}

/* --- what is off ----------------------------------------------------------------------------- */

static void add_why(struct text *out, const struct validation *v)
{
    text_add(out,
             "\n## What is off, and why\n\n"
             "By a sensitivity to each constant of profiles and stacks, 1 %% up in turn. The "
             "constant that would explain most\nis a suspicion: times of whole steps cannot tell "
             "apart constants that act alike.\n\n");
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
        text_add(out, "\n## What could not be scored\n\n| rows | reason |\n|---:|---|\n");
    for (int i = 0; i < tallies.count; i++)
        text_add(out, "| %d | %s |\n", tallies.at[i].count, tallies.at[i].text);
    free(tallies.at);
}

/* --- the page -------------------------------------------------------------------------------- */

static const char protocol[] =
    "\n## Protocol\n\n"
    "1. A row counts when model, layout and micro-batch are known and a time was measured; of a "
    "configuration\n   measured more than once the last.\n"
    "2. Its error is |log(predicted / measured)| of the step time, or of tokens per second; never "
    "of FLOP/s or\n   MFU, which sources count differently. Bias is the signed median.\n"
    "3. Sources are scored one by one, and the mean of medians weighs each the same.\n"
    "4. Rows that a constant of the profile or stack was fitted on stand apart; `fitted_on` in "
    "those files names them.\n"
    "   Other rows of the same source were not fitted on, but are alike: a new source may do "
    "worse.\n"
    "5. A time is covered when it lies in the 90 % interval that the prediction states. Its width "
    "was "
    "found on the\n   rows that no constant was fitted on; `simsearch fit` says what share of them "
    "lies in intervals that were\n   found without them.\n";

static void add_page(struct text *out, const struct validation *v, const char *picture)
{
    const struct scores *scores = &v->scores;
    text_add(out,
             "# How accurate predictions are\n\n"
             "`make accuracy` writes this page from the measured runs in `calibration/measured`; "
             "`simsearch validate --why` shows the same.\n\n"
             "%d rows, %d configurations to score, %d scored. ",
             scores->num_rows, scores->num_core_groups, scores->num_scored);
    if (isfinite(scores->mean_of_medians))
        text_add(out, "Mean over sources of the median error: %.1f %%. ",
                 100 * scores->mean_of_medians);
    if (scores->all.not_fitted.groups > 0)
        text_add(out,
                 "%.1f %% of the %d measured times that nothing was fitted on lie in their "
                 "90 %% intervals.",
                 100 * scores->all.not_fitted.coverage, scores->all.not_fitted.groups);
    text_add(out, "\n\n![Predicted against measured step times](%s)\n", picture);
    add_scores(out, scores, "Step time, rows that nothing was fitted on", SCORE_DENSE, false);
    add_scores(out, scores, "Step time, rows that constants were fitted on", SCORE_DENSE, true);
    add_scores(out, scores, "Memory, rows that nothing was fitted on", SCORE_MEMORY, false);
    text_add(out, "%s", protocol);
    add_order(out, &v->preferences);
    text_add(
        out,
        "\n## What the numbers rest on\n\n"
        "`needed` is the half width, in log time, of the interval that the next row falls "
        "into with 90 %% (split conformal\nprediction on the rows that nothing was fitted "
        "on; fewer than 9 cannot say), `stated` the median of what\ntheir predictions state, by "
        "what each step is made of. A stack is judged on measured profiles.\n");
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
    const char *slash = strrchr(prefix, '/');
    text_add(&picture, "%s.svg", slash ? slash + 1 : prefix);
    add_page(&page, v, text_get(&picture));
    scatter_draw(v, &svg);
    bool ok = write_file(prefix, ".svg", &svg, err) && write_file(prefix, ".md", &page, err);
    text_release(&page);
    text_release(&svg);
    text_release(&picture);
    return ok;
}
