/* Prints the results of fits of constants, as text or JSON. */
#include "cli/score/fit_view.h"

#include "cli/print/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- text ------------------------------------------------------------------------------------ */

static void value_text(const struct fit_value *of, double value, char *text, size_t size)
{
    const struct field *field = &of->of->constant.field;
    if (field->kind == FIELD_QUANTITY)
        units_write(value, field->quantity, text, size);
    else
        snprintf(text, size, "%.6g", value);
}

static void add_value(struct text *out, const struct fit_value *value)
{
    char before[64], after[64], prior[64], error[32] = "on its bound";
    value_text(value, value->before, before, sizeof before);
    value_text(value, value->value, after, sizeof after);
    value_text(value, value->of->prior, prior, sizeof prior);
    if (!value->is_at_bound)
        snprintf(error, sizeof error, "%.1f %%", 100 * value->standard_error);
    text_add(out, "  ");
    text_add_padded(out, value->of->constant.key, 34);
    text_add_padded(out, prior, -12);
    text_add_padded(out, before, -12);
    text_add_padded(out, after, -12);
    text_add_padded(out, error, -14);
    text_add(out, "\n");
}

static void add_values(struct text *out, const struct fit_result *result)
{
    const char *file = "";
    text_add(out, "\n  ");
    text_add_padded(out, "constant", 34);
    text_add(out, "       prior      before       after      std error\n");
    for (int j = 0; j < result->num_values; j++) {
        const struct fit_value *value = &result->values[j];
        if (strcmp(file, value->of->constant.file) != 0)
            text_add(out, " %s\n", value->of->constant.file);
        file = value->of->constant.file;
        add_value(out, value);
    }
}

static void add_percent(struct text *out, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.1f %%", 100 * value);
    text_add_padded(out, text, -9);
}

static void add_score(struct text *out, const struct score *score)
{
    if (score->groups == 0) {
        text_add_padded(out, "-", -27);
        return;
    }
    add_percent(out, score->median);
    add_percent(out, score->mean);
    add_percent(out, score->worst);
}

static void add_sources(struct text *out, const struct fit_result *result)
{
    text_add(out, "\n  ");
    text_add_padded(out, "|log(predicted / measured)|", 34);
    text_add(out, "  rows          in sample            cross-validated\n");
    text_add(out, "  ");
    text_add_padded(out, "", 40);
    text_add(out, "   median     mean    worst   median     mean    worst\n");
    for (int i = 0; i < result->num_sources; i++) {
        const struct fit_source *source = &result->sources[i];
        char rows[16];
        snprintf(rows, sizeof rows, "%d", source->in_sample.groups);
        text_add(out, "  ");
        text_add_padded(out, source->name, 34);
        text_add_padded(out, rows, -6);
        add_score(out, &source->in_sample);
        add_score(out, &source->out_of_sample);
        text_add(out, "\n");
    }
}

/* Adds a constant's name, without its file when `other` has the same file. */
static void add_name(struct text *out, const struct fit_value *value, const struct fit_value *other)
{
    if (strcmp(value->of->constant.file, other->of->constant.file) != 0)
        text_add(out, "%s: ", value->of->constant.file);
    text_add(out, "%s", value->of->constant.key);
}

static void add_correlations(struct text *out, const struct fit_result *result)
{
    enum { MOST = 5 };
    if (result->num_correlations > 0)
        text_add(out, "\n  Strongly correlated\n");
    for (int i = 0; i < result->num_correlations && i < MOST; i++) {
        const struct fit_correlation *c = &result->correlations[i];
        const struct fit_value *a = &result->values[c->a], *b = &result->values[c->b];
        text_add(out, "    %+.2f  ", c->value);
        add_name(out, a, b);
        text_add(out, " and ");
        add_name(out, b, a);
        text_add(out, "\n");
    }
}

static void add_curves(struct text *out, const struct curve_results *curves)
{
    text_add(out, "\ncurves: |log(curve / measured)|\n\n  ");
    text_add_padded(out, "", 50);
    text_add(out, "  rows  knots   median     mean    worst\n");
    for (int i = 0; i < curves->count; i++) {
        const struct curve_result *result = &curves->at[i];
        struct text name = { 0 };
        text_add(&name, "%s: %s of %d", result->of->file,
                 collective_names[result->curve.collective], result->curve.num_ranks);
        text_add(out, "  ");
        text_add_padded(out, text_get(&name), 50);
        text_add(out, "%6d%7d", result->errors.groups, result->curve.num_points);
        add_score(out, &result->errors);
        text_add(out, "\n");
        text_release(&name);
    }
}

static void add_share(struct text *out, double share)
{
    if (isfinite(share))
        add_percent(out, share);
    else
        text_add_padded(out, "-", -9);
}

static void add_families(struct text *out, const struct families *families)
{
    text_add(out,
             "\nintervals: half widths (90 %%, log time) for a step that consists only of one part "
             "alone\n\n  ");
    text_add_padded(out, "stack", 20);
    text_add_padded(out, "rows", -5);
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        text_add_padded(out, error_width_fields[k].name, -10);
    text_add(out, "  covered left out\n");
    for (int i = 0; i < families->count; i++) {
        const struct family_widths *family = &families->at[i];
        char text[32];
        text_add(out, "  ");
        text_add_padded(out, family->stack, 20);
        snprintf(text, sizeof text, "%d", family->rows);
        text_add_padded(out, text, -5);
        for (int k = 0; k < NUM_ERROR_PARTS; k++) {
            snprintf(text, sizeof text, "%.3f", error_width(&family->widths, k));
            text_add_padded(out, text, -10);
        }
        add_share(out, family->covered);
        add_share(out, family->left_out);
        text_add(out, "\n");
    }
    text_add(out,
             "  all: %.1f %% of %d rows lie within their intervals, %.1f %% with widths fitted "
             "without the row's fold\n",
             100 * families->covered, families->rows, 100 * families->left_out);
}

void fit_print(const struct findings *found)
{
    struct text out = { 0 };
    for (int r = 0; r < found->num_results; r++) {
        const struct fit_result *result = &found->results[r];
        text_add(&out, "%s%s", r > 0 ? "\n" : "", result->job->name);
        text_add(&out, *result->job->summary ? ": %s\n" : "%s\n", result->job->summary);
        text_add(&out, "%d constants, %d rows, %d steps\n", result->num_values, result->rows.count,
                 result->steps);
        add_values(&out, result);
        add_sources(&out, result);
        add_correlations(&out, result);
    }
    if (found->curves && found->curves->count > 0)
        add_curves(&out, found->curves);
    if (found->families)
        add_families(&out, found->families);
    fputs(text_get(&out), stdout);
    text_release(&out);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *score_json(const struct score *score)
{
    if (score->groups == 0)
        return json_null();
    return json_pack("{s:i, s:f, s:f, s:f, s:f}", "n", score->groups, "median", score->median,
                     "mean", score->mean, "worst", score->worst, "bias", score->bias);
}

static json_t *value_json(const struct fit_value *value)
{
    const struct constant *constant = &value->of->constant;
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:f, s:b}", "file", constant->file, "key",
                     constant->key, "prior", constant_write(constant, value->of->prior), "before",
                     constant_write(constant, value->before), "after",
                     constant_write(constant, value->value), "standard_error",
                     value->standard_error, "at_bound", value->is_at_bound);
}

static json_t *result_json(const struct fit_result *result)
{
    json_t *constants = json_array();
    json_t *sources = json_object();
    for (int j = 0; j < result->num_values; j++)
        json_array_append_new(constants, value_json(&result->values[j]));
    for (int i = 0; i < result->num_sources; i++) {
        const struct fit_source *source = &result->sources[i];
        json_object_set_new(sources, source->name,
                            json_pack("{s:o, s:o}", "in_sample", score_json(&source->in_sample),
                                      "cross_validated", score_json(&source->out_of_sample)));
    }
    return json_pack("{s:s, s:i, s:i, s:o, s:o}", "job", result->job->name, "rows",
                     result->rows.count, "steps", result->steps, "constants", constants, "sources",
                     sources);
}

static json_t *curves_json(const struct curve_results *curves)
{
    json_t *list = json_array();
    for (int i = 0; i < curves->count; i++) {
        const struct curve_result *result = &curves->at[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "file", result->of->file, "curve",
                                              curve_write(&result->curve), "errors",
                                              score_json(&result->errors)));
    }
    return list;
}

static json_t *share_json(double share)
{
    return isfinite(share) ? json_real(share) : json_null();
}

static json_t *families_json(const struct families *families)
{
    json_t *stacks = json_object();
    for (int i = 0; i < families->count; i++) {
        const struct family_widths *family = &families->at[i];
        json_object_set_new(
            stacks, family->stack,
            json_pack("{s:i, s:o, s:o, s:o}", "rows", family->rows, "errors",
                      fields_write(error_width_fields, num_error_width_fields, &family->widths),
                      "covered", share_json(family->covered), "left_out",
                      share_json(family->left_out)));
    }
    return json_pack("{s:i, s:o, s:o, s:o}", "rows", families->rows, "covered",
                     share_json(families->covered), "left_out", share_json(families->left_out),
                     "stacks", stacks);
}

void fit_print_json(const struct findings *found)
{
    json_t *list = json_array();
    for (int r = 0; r < found->num_results; r++)
        json_array_append_new(list, result_json(&found->results[r]));
    json_t *root = json_pack("{s:o}", "jobs", list);
    if (found->curves)
        json_object_set_new(root, "curves", curves_json(found->curves));
    if (found->families)
        json_object_set_new(root, "intervals", families_json(found->families));
    print_json(root);
    json_decref(root);
}
