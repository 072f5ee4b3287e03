/* cli/score/leave_out.c - fits that leave out one source at a time. */
#include "cli/score/leave_out.h"

#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "calibration/fit/shipped_runs.h"
#include "calibration/fit/source_shifts.h"
#include "cli/input/command.h"
#include "cli/print/terminal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct names {
    const char **at;
    int count;
};

/* The sources (publications) of the rows that runs.csv marks with core = 1, in the order of the
 * file. */
static bool list_sources(struct arena *arena, struct names *out, struct err *err)
{
    struct run_rows rows;
    if (!shipped_runs_load(arena, &rows, err))
        return false;
    out->at = ARENA_ARRAY(arena, const char *, (size_t)rows.count);
    for (int i = 0; i < rows.count; i++) {
        int k = 0;
        while (k < out->count && strcmp(out->at[k], rows.at[i].source_key) != 0)
            k++;
        if (k == out->count && rows.at[i].core)
            out->at[out->count++] = rows.at[i].source_key;
    }
    return true;
}

static json_t *constants_json(const struct left_out *of)
{
    json_t *list = json_array();
    for (int r = 0; r < of->num_results; r++)
        for (int j = 0; j < of->results[r].num_values; j++) {
            const struct fit_value *value = &of->results[r].values[j];
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:f, s:f}", "of", value->of->constant.file,
                                            "constant", value->of->constant.key, "value",
                                            value->value, "standard_error", value->standard_error));
        }
    return list;
}

static json_t *details_json(const struct left_out *of)
{
    json_t *rows = json_array();
    for (int i = 0; i < of->num_rows; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:b, s:f}", "id", of->rows[i].id, "tier",
                                              tier_names[of->rows[i].tier], "dense",
                                              of->rows[i].is_dense, "error", of->rows[i].error));
    return json_pack("{s:s, s:o, s:o}", "source", of->source, "constants", constants_json(of),
                     "rows", rows);
}

/* Fits without each source of `names` in turn, and finds the shifts of these sources. `known` has
 * the shifts of all other sources; it is NULL if `names` lists all sources. `details` gets each
 * source's rows and constants. */
static bool find(const struct fit_table *table, const struct names *names, int jobs,
                 const struct source_shifts *known, struct arena *arena, json_t *details,
                 struct source_shifts *out, struct err *err)
{
    struct left_out *sources = ARENA_ARRAY(arena, struct left_out, (size_t)names->count);
    bool ok = true;
    for (int i = 0; i < names->count && ok; i++)
        ok = leave_out(table, names->at[i], jobs, &sources[i], err);
    if (ok)
        source_shifts_find(sources, names->count, known, out);
    for (int i = 0; i < names->count; i++) {
        if (ok)
            json_array_append_new(details, details_json(&sources[i]));
        left_out_release(&sources[i]);
    }
    return ok;
}

/* --- output ---------------------------------------------------------------------------------- */

/* Fraction of the source's rows that an interval fitted without the source covers. */
static double covered(const struct source_shifts *all, const struct source_shift *of)
{
    return shift_covers(of, shift_width(all, (enum tier)of->tier, of->source));
}

static void print_text(const struct source_shifts *found, const struct source_shifts *all)
{
    struct text out = { 0 };
    text_add(&out,
             "each source predicted by constants fitted without it; errors are |log(predicted "
             "/ measured)|\n  ");
    text_add_padded(&out, "source", 20);
    text_add(&out, "tier       groups   median     mean      P90    worst     bias  covered\n");
    for (int i = 0; i < found->count; i++) {
        const struct source_shift *of = &found->at[i];
        text_add(&out, "  ");
        text_add_padded(&out, of->source, 20);
        text_add_padded(&out, tier_names[of->tier], 11);
        text_add(&out, "%6d%7.1f %%%7.1f %%%7.1f %%%7.1f %%%+7.1f %%%7.0f %%\n", of->groups,
                 100 * of->median, 100 * of->mean, 100 * of->p90, 100 * of->worst, 100 * of->bias,
                 100 * covered(all, of));
    }
    text_add(&out, "  tier: whether other sources ran the source's stack and GPU\n"
                   "  covered: share of the source's rows in the 90 %% interval of the tier, "
                   "which is fitted without the source\n");
    fputs(text_get(&out), stdout);
    text_release(&out);
}

static json_t *shift_json(const struct source_shift *of, const struct source_shifts *all)
{
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "source", of->source, "tier",
                     tier_names[of->tier], "groups", of->groups, "median", of->median, "mean",
                     of->mean, "p90", of->p90, "worst", of->worst, "bias", of->bias, "coverage",
                     covered(all, of));
}

static void print_document(const struct source_shifts *found, const struct source_shifts *all,
                           json_t *details)
{
    json_t *list = json_array();
    for (int i = 0; i < found->count; i++)
        json_array_append_new(list, shift_json(&found->at[i], all));
    json_t *root = json_pack("{s:o, s:O}", "left_out", list, "details", details);
    print_json(root);
    json_decref(root);
}

static bool write_file(const struct source_shifts *found, const char *folder, struct err *err)
{
    struct text text = { 0 };
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/left_out.json", folder);
    source_shifts_write(found, &text);
    bool ok = (length > 0 && length < (int)sizeof path)
                  ? file_write(path, text_get(&text), text.length, err)
                  : err_set(err, ERR_USAGE, "--output", "the path is too long");
    text_release(&text);
    return ok;
}

bool leave_out_show(const struct fit_table *table, const struct options *options, struct err *err)
{
    struct arena arena = { 0 };
    struct source_shifts found = { 0 }, shipped = { 0 };
    const char *one[] = { options->fit.leave_out };
    struct names names = { one, 1 };
    bool is_all = strcmp(options->fit.leave_out, "all") == 0;
    int jobs = options->jobs > 0 ? options->jobs : parallel_cores();
    if (is_all)
        names = (struct names){ 0 };
    json_t *details = json_array();
    bool ok = (!is_all || list_sources(&arena, &names, err)) &&
              (is_all || source_shifts_load(&shipped, err)) &&
              find(table, &names, jobs, is_all ? NULL : &shipped, &arena, details, &found, err) &&
              (!is_all || !options->output || write_file(&found, options->output, err));
    if (ok && options->json)
        print_document(&found, is_all ? &found : &shipped, details);
    else if (ok)
        print_text(&found, is_all ? &found : &shipped);
    json_decref(details);
    source_shifts_release(&found);
    source_shifts_release(&shipped);
    arena_release(&arena);
    return ok;
}
