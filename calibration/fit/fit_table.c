/* Reads calibration/fit.json, which states the constants to fit and the measured rows to fit them
 * on. */
#include "calibration/fit/fit_table.h"

#include "base/file.h"
#include "base/json.h"
#include "base/length.h"
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_IDS = 100000 };

#define AT(type, member) .offset = offsetof(struct type, member)
#define TEXT(type, member) \
    .kind = FIELD_TEXT, AT(type, member), .size = sizeof((struct type *)0)->member

// clang-format off
const struct field fit_table_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "source", .kind = FIELD_OTHER, .fallback = "", .doc = "Where the numbers in this file come from." },
    { .name = "jobs", .kind = FIELD_OTHER, .doc = "The jobs, in the order in which they run." },
    { .name = "curves", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Curves of collective time by message size, fitted to measurements and stored in profiles." },
    { .name = "intervals", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Settings for the 90 % intervals of stacks, which are fitted after all jobs." },
    { .name = "ran", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Layouts that did not run out of memory, so that their real peaks are known to fit. Used to correct the predicted peaks of stacks without measured peaks." },
};
const struct field fit_ran_fields[] = {
    { .name = "stack", TEXT(fit_ran, stack), .doc = "Stack that ran the layout." },
    { .name = "cluster", TEXT(fit_ran, cluster), .doc = "Cluster on which it ran." },
    { .name = "gpus", .kind = FIELD_INT, AT(fit_ran, gpus), .min = 1, .max = 1 << 20,
      .doc = "Number of GPUs." },
    { .name = "model", TEXT(fit_ran, model), .doc = "Model that was trained." },
    { .name = "seq", .kind = FIELD_INT, AT(fit_ran, seq), .min = 1, .max = 1e9,
      .doc = "Tokens of a sequence." },
    { .name = "batch", .kind = FIELD_NUMBER, AT(fit_ran, batch), .min = 1, .max = 1e9,
      .doc = "Sequences of a step." },
    { .name = "layout", TEXT(fit_ran, layout), .doc = "The layout." },
    { .name = "source", .kind = FIELD_OTHER, .doc = "Source of these values." },
};
#define OF_CURVE(member) .offset = offsetof(struct fit_curve, curve.member)
const struct field fit_curve_fields[] = {
    { .name = "file", TEXT(fit_curve, file), .doc = "Profile that gets the curve: profiles/NAME." },
    { .name = "collective", .kind = FIELD_NAME, OF_CURVE(collective), .names = collective_names,
      .doc = "Collective whose times the curve gives." },
    { .name = "ranks", .kind = FIELD_INT, OF_CURVE(num_ranks), .min = 2, .max = 1e6,
      .doc = "GPUs of the group; only rows with this number are used." },
    { .name = "nodes", .kind = FIELD_INT, OF_CURVE(num_nodes), .min = 1, .max = 1e6,
      .fallback = "1", .doc = "Number of nodes that the group spans." },
    { .name = "fabric", .kind = FIELD_TEXT, OF_CURVE(fabric),
      .size = sizeof((struct curve *)0)->fabric,
      .doc = "Name of the fabric that connects the group's GPUs, as in the cluster's file." },
    { .name = "knots", .kind = FIELD_OTHER, .doc = "Sizes of the curve's points, in ascending "
                                                   "order." },
    { .name = "rows", .kind = FIELD_OTHER, .doc = "Rows of kind collectives on which the curve is "
                                                  "fitted." },
};
const struct field width_rules_fields[] = {
    { .name = "source", .kind = FIELD_OTHER, .fallback = "", .doc = "Source of the prior." },
    { .name = "prior_rows", .kind = FIELD_NUMBER, AT(width_rules, prior_rows), .min = 1e-3,
      .max = 1e6, .fallback = "10", .doc = "Weight of the prior, in rows." },
    { .name = "cutoff", .kind = FIELD_NUMBER, AT(width_rules, cutoff), .min = 1e-3, .max = 10,
      .fallback = "0.35", .doc = "Larger errors (in log time) count as this error." },
    { .name = "prior", .kind = FIELD_OTHER,
      .doc = "Prior half widths of the intervals, with the keys of `errors` in a stack's file." },
};
const struct field fit_job_fields[] = {
    { .name = "name", TEXT(fit_job, name), .doc = "Name of the job." },
    { .name = "summary", TEXT(fit_job, summary), .fallback = "", .doc = "Description in one line, which `list` shows." },
    { .name = "prior_weight", .kind = FIELD_NUMBER, AT(fit_job, prior_weight), .min = 0, .max = 1e6,
      .fallback = "0.6", .doc = "Weight of a constant's deviation, log(constant / prior), relative to the errors of rows." },
    { .name = "loss_scale", .kind = FIELD_NUMBER, AT(fit_job, loss_scale), .min = 1e-4, .max = 1e6,
      .fallback = "0.1", .doc = "Errors (in log time) above this scale count linearly instead of "
                                "by their square." },
    { .name = "cutoff", .kind = FIELD_NUMBER, AT(fit_job, cutoff), .min = 1e-4, .max = 1e6,
      .fallback = "0.5", .doc = "Errors above this limit do not affect the fit, as such runs have effects that the model does not include." },
    { .name = "middle", .kind = FIELD_BOOL, AT(fit_job, is_middle), .fallback = "false",
      .doc = "The job fits no rows: stacks that were never measured take the median of the fitted "
             "stacks' constants." },
    { .name = "constants", .kind = FIELD_OTHER, .doc = "Prior, min and max of each constant, by file "
                                                       "and key." },
    { .name = "rows", .kind = FIELD_OTHER, .fallback = "", .doc = "Rows on which the constants are "
                                                                  "fitted." },
};
const struct field fit_constant_fields[] = {
    { .name = "prior", .kind = FIELD_OTHER, .doc = "Value at which the fit starts; deviations from "
                                                   "it are penalised." },
    { .name = "min", .kind = FIELD_OTHER, .fallback = "", .doc = "Lower bound; absent: prior / "
                                                                 "1000." },
    { .name = "max", .kind = FIELD_OTHER, .fallback = "", .doc = "Upper bound; absent: prior x "
                                                                 "1000." },
    { .name = "source", .kind = FIELD_OTHER, .fallback = "", .doc = "Source of these numbers." },
};
const struct field fit_rows_fields[] = {
    { .name = "kind", TEXT(fit_rows, kind), .fallback = "runs",
      .doc = "What the rows measure: runs, products (matrix products), collectives or ops." },
    { .name = "data", TEXT(fit_rows, data), .fallback = "runs.csv",
      .doc = "File in calibration/measured, or a path that begins with . or /." },
    { .name = "name", TEXT(fit_rows, name), .fallback = "",
      .doc = "Name of the rows in reports; absent: the rows' source or the file." },
    { .name = "source", TEXT(fit_rows, source), .fallback = "",
      .doc = "For runs: the source_key of the rows. Of rows with equal configurations one is used." },
    { .name = "cluster", TEXT(fit_rows, cluster), .fallback = "",
      .doc = "Cluster on which a micro-benchmark ran." },
    { .name = "stack", TEXT(fit_rows, stack), .fallback = "megatron-core",
      .doc = "Stack whose attention kernel a micro-benchmark measured." },
    { .name = "ids", .kind = FIELD_OTHER, .fallback = "", .doc = "For runs: ids of the rows." },
    { .name = "where", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Conditions by column: a text, or [min, max] for a column of numbers. Only rows that meet all of them are used." },
    { .name = "sample", .kind = FIELD_INT, AT(fit_rows, sample), .min = 0, .max = 1000000,
      .fallback = "0", .doc = "Number of rows that are drawn at random; of these, rows that cannot "
                              "be predicted are left out. 0: all rows." },
    { .name = "seed", .kind = FIELD_INT, AT(fit_rows, seed), .min = 0, .max = INT_MAX,
      .fallback = "0", .doc = "Seed of the sample (a partial Fisher-Yates shuffle with SplitMix64)." },
    { .name = "weight", .kind = FIELD_NUMBER, AT(fit_rows, weight), .min = 1e-6, .max = 1e9,
      .fallback = "100", .doc = "Total weight of these rows' squared errors; all rows have the same weight." },
};
// clang-format on
const size_t num_fit_ran_fields = LENGTH(fit_ran_fields);
const size_t num_fit_curve_fields = LENGTH(fit_curve_fields);
const size_t num_width_rules_fields = LENGTH(width_rules_fields);
const size_t num_fit_table_fields = LENGTH(fit_table_fields);
const size_t num_fit_job_fields = LENGTH(fit_job_fields);
const size_t num_fit_constant_fields = LENGTH(fit_constant_fields);
const size_t num_fit_rows_fields = LENGTH(fit_rows_fields);

/* --- constants ----------------------------------------------------------------------------- */

static bool read_bound(const struct constant *constant, const json_t *object, const char *key,
                       double usual, double *out, struct err *err)
{
    const json_t *value = json_object_get(object, key);
    *out = usual;
    if (!value)
        return true;
    if (!constant_read(constant, value, out, err) ||
        (*out <= 0 && !err_set(err, ERR_INPUT, "", "expected more than 0: logarithms are fitted")))
        return err_within(err, key);
    return true;
}

static bool read_constant(struct fit_table *table, const char *file, const char *key,
                          const json_t *object, struct fit_constant *out, struct err *err)
{
    struct fit_constant none;
    const json_t *source = json_object_get(object, "source");
    if (!constant_find(arena_text(&table->arena, file), arena_text(&table->arena, key),
                       &out->constant, err) ||
        !fields_read(fit_constant_fields, num_fit_constant_fields, object, &none, err) ||
        !read_bound(&out->constant, object, "prior", 0, &out->prior, err) ||
        !read_bound(&out->constant, object, "min", out->prior / 1000, &out->min, err) ||
        !read_bound(&out->constant, object, "max", out->prior * 1000, &out->max, err))
        return false;
    const struct field *field = &out->constant.field;
    if (field->max > 0)
        out->max = fmin(out->max, field->max);
    out->min = fmax(out->min, field->min);
    if (source && !json_plain_text(source))
        return err_set(err, ERR_INPUT, "source", "expected a text that states the source");
    out->source = source ? arena_text(&table->arena, json_string_value(source)) : "";
    return (out->prior >= out->min && out->prior <= out->max) ||
           err_set(err, ERR_INPUT, "prior",
                   "expected a value between the bounds %.6g and %.6g; "
                   "found %.6g",
                   out->min, out->max, out->prior);
}

static bool read_file_constants(struct fit_table *table, const char *file, json_t *object,
                                struct fit_job *out, struct err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return err_set(err, ERR_INPUT, "", "expected an object whose keys are constants");
    json_object_foreach (object, key, value)
        if (!read_constant(table, file, key, value, &out->constants[out->num_constants++], err))
            return err_within(err, key);
    return true;
}

static bool read_constants(struct fit_table *table, json_t *files, struct fit_job *out,
                           struct err *err)
{
    const char *file;
    json_t *object;
    size_t count = 0;
    if (!json_is_object(files))
        return err_set(err, ERR_INPUT, "constants",
                       "expected an object whose keys are files: profiles/NAME or stacks/NAME");
    json_object_foreach (files, file, object)
        count += json_object_size(object);
    out->constants = ARENA_ARRAY(&table->arena, struct fit_constant, count);
    json_object_foreach (files, file, object)
        if (!read_file_constants(table, file, object, out, err)) {
            err_within(err, file);
            return err_within(err, "constants");
        }
    return out->num_constants > 0 ||
           err_set(err, ERR_INPUT, "constants", "expected at least one; found none");
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool read_ids(struct fit_table *table, const json_t *ids, struct fit_rows *out,
                     struct err *err)
{
    size_t count = json_array_size(ids);
    if (!ids)
        return true;
    if (!json_is_array(ids) || count == 0 || count > MOST_IDS)
        return err_set(err, ERR_INPUT, "ids", "expected a list of ids");
    out->ids = ARENA_ARRAY(&table->arena, const char *, count);
    out->num_ids = (int)count;
    for (size_t i = 0; i < count; i++) {
        const char *id = json_plain_text(json_array_get(ids, i));
        if (!id && !err_set(err, ERR_INPUT, "", "expected the id of a row"))
            return err_within_item(err, "ids", i);
        out->ids[i] = arena_text(&table->arena, id);
    }
    return true;
}

static bool read_filter(struct fit_table *table, const char *column, const json_t *value,
                        struct fit_filter *out, struct err *err)
{
    const json_t *min = json_array_get(value, 0), *max = json_array_get(value, 1);
    bool is_range = json_array_size(value) == 2 && json_is_number(min) && json_is_number(max);
    if (!json_is_string(value) && !is_range)
        return err_set(err, ERR_INPUT, column,
                       "expected a text, or [min, max] for a column of numbers");
    out->column = arena_text(&table->arena, column);
    if (is_range) {
        out->min = json_number_value(min);
        out->max = json_number_value(max);
    } else {
        out->text = arena_text(&table->arena, json_string_value(value));
    }
    return true;
}

static bool read_where(struct fit_table *table, json_t *where, struct fit_rows *out,
                       struct err *err)
{
    const char *column;
    json_t *value;
    if (!where)
        return true;
    if (!json_is_object(where))
        return err_set(err, ERR_INPUT, "where", "expected an object whose keys are columns");
    out->filters = ARENA_ARRAY(&table->arena, struct fit_filter, json_object_size(where));
    json_object_foreach (where, column, value)
        if (!read_filter(table, column, value, &out->filters[out->num_filters++], err))
            return err_within(err, "where");
    return true;
}

static bool read_rows(struct fit_table *table, const json_t *list, struct fit_job *out,
                      struct err *err)
{
    size_t count = json_array_size(list);
    if (count == 0)
        return err_set(err, ERR_INPUT, "rows", "expected a list of at least one set of rows");
    out->rows = ARENA_ARRAY(&table->arena, struct fit_rows, count);
    for (size_t i = 0; i < count; i++) {
        json_t *object = json_array_get(list, i);
        struct fit_rows *rows = &out->rows[out->num_rows++];
        if (!fields_read(fit_rows_fields, num_fit_rows_fields, object, rows, err) ||
            !read_ids(table, json_object_get(object, "ids"), rows, err) ||
            !read_where(table, json_object_get(object, "where"), rows, err))
            return err_within_item(err, "rows", i);
    }
    return true;
}

/* --- jobs ---------------------------------------------------------------------------------- */

static bool is_taken(const struct fit_table *table, const char *name)
{
    for (int i = 0; i + 1 < table->num_jobs; i++)
        if (strcmp(table->jobs[i].name, name) == 0)
            return true;
    return false;
}

static bool read_job(struct fit_table *table, const json_t *object, struct fit_job *out,
                     struct err *err)
{
    return fields_read(fit_job_fields, num_fit_job_fields, object, out, err) &&
           (!is_taken(table, out->name) ||
            err_set(err, ERR_INPUT, "name", "two jobs have the name \"%s\"", out->name)) &&
           read_constants(table, json_object_get(object, "constants"), out, err) &&
           (out->is_middle || read_rows(table, json_object_get(object, "rows"), out, err));
}

/* --- curves -------------------------------------------------------------------------------- */

static bool read_knots(const json_t *knots, struct curve *out, struct err *err)
{
    size_t count = json_array_size(knots);
    if (count < 2 || count > MAX_CURVE_POINTS)
        return err_set(err, ERR_INPUT, "knots", "expected a list of 2 to %d sizes",
                       MAX_CURVE_POINTS);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(knots, i));
        double *bytes = &out->points[i].bytes;
        bool ok = text ? units_parse(text, QUANTITY_BYTES, bytes, err)
                       : err_set(err, ERR_INPUT, "", "expected a size, like \"1 MiB\"");
        if (ok && (*bytes <= 0 || (i > 0 && *bytes <= out->points[i - 1].bytes)))
            ok = err_set(err, ERR_INPUT, "",
                         "expected a size above 0 and above that of the previous point");
        if (!ok)
            return err_within_item(err, "knots", i);
    }
    out->num_points = (int)count;
    return true;
}

static bool read_curve(struct fit_table *table, const json_t *object, struct fit_curve *out,
                       struct err *err)
{
    return fields_read(fit_curve_fields, num_fit_curve_fields, object, out, err) &&
           read_knots(json_object_get(object, "knots"), &out->curve, err) &&
           read_rows(table, json_object_get(object, "rows"), &out->job, err);
}

static bool read_curves(struct fit_table *table, const json_t *list, struct err *err)
{
    size_t count = json_array_size(list);
    if (list && !json_is_array(list))
        return err_set(err, ERR_INPUT, "curves", "expected a list");
    table->curves = ARENA_ARRAY(&table->arena, struct fit_curve, count);
    for (size_t i = 0; i < count; i++) {
        struct fit_curve *curve = &table->curves[table->num_curves++];
        if (!read_curve(table, json_array_get(list, i), curve, err))
            return err_within_item(err, "curves", i);
        for (int k = 0; k < curve->job.num_rows; k++)
            snprintf(curve->job.rows[k].where, sizeof curve->job.rows[k].where,
                     "curves[%zu].rows[%d]", i, k);
    }
    return true;
}

static bool read_ran(struct fit_table *table, const json_t *list, struct err *err)
{
    size_t count = json_array_size(list);
    if (list && !json_is_array(list))
        return err_set(err, ERR_INPUT, "ran", "expected a list");
    table->ran = ARENA_ARRAY(&table->arena, struct fit_ran, count);
    for (size_t i = 0; i < count; i++)
        if (!fields_read(fit_ran_fields, num_fit_ran_fields, json_array_get(list, i),
                         &table->ran[table->num_ran++], err))
            return err_within_item(err, "ran", i);
    return true;
}

static bool read_intervals(const json_t *object, struct width_rules *out, struct err *err)
{
    if (!object)
        return true;
    if (!fields_read(width_rules_fields, num_width_rules_fields, object, out, err))
        return err_within(err, "intervals");
    if (fields_read(error_width_fields, num_error_width_fields, json_object_get(object, "prior"),
                    &out->prior, err))
        return true;
    err_within(err, "prior");
    return err_within(err, "intervals");
}

static bool read_jobs(struct fit_table *table, const json_t *root, struct err *err)
{
    const json_t *format = json_object_get(root, "format");
    const json_t *list = json_object_get(root, "jobs");
    struct fit_job none;
    if (!fields_read(fit_table_fields, num_fit_table_fields, root, &none, err))
        return false;
    if (!json_is_integer(format) || json_integer_value(format) != 1)
        return err_set(err, ERR_INPUT, "format", "expected 1");
    if (!json_is_array(list))
        return err_set(err, ERR_INPUT, "jobs", "expected a list");
    if (!read_intervals(json_object_get(root, "intervals"), &table->intervals, err) ||
        !read_curves(table, json_object_get(root, "curves"), err) ||
        !read_ran(table, json_object_get(root, "ran"), err))
        return false;
    table->jobs = ARENA_ARRAY(&table->arena, struct fit_job, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct fit_job *job = &table->jobs[table->num_jobs++];
        if (!read_job(table, json_array_get(list, i), job, err))
            return err_within_item(err, "jobs", i);
        for (int k = 0; k < job->num_rows; k++)
            snprintf(job->rows[k].where, sizeof job->rows[k].where, "jobs[%zu].rows[%d]", i, k);
    }
    return true;
}

static bool shipped_path(char *path, size_t size, struct err *err)
{
    char folder[PATH_MAX];
    if (!file_data_folder("calibration", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration",
                       "no such data folder; is SIMSEARCH_DATA right?");
    snprintf(path, size, "%s/fit.json", folder);
    return true;
}

bool fit_table_load(const char *path, struct fit_table *out, struct err *err)
{
    char shipped[PATH_MAX + 16];
    *out = (struct fit_table){ 0 };
    if ((!path && !shipped_path(shipped, sizeof shipped, err)) ||
        !json_file_load(&out->file, path ? path : shipped, err))
        return false;
    return read_jobs(out, out->file.root, err) || json_file_blame(&out->file, err);
}

void fit_table_release(struct fit_table *table)
{
    json_file_release(&table->file);
    arena_release(&table->arena);
    *table = (struct fit_table){ 0 };
}

const struct fit_job *fit_table_find(const struct fit_table *table, const char *name,
                                     struct err *err)
{
    struct arena arena = { 0 };
    const char **names = ARENA_ARRAY(&arena, const char *, (size_t)table->num_jobs);
    const struct fit_job *found = NULL;
    for (int i = 0; i < table->num_jobs && !found; i++) {
        names[i] = table->jobs[i].name;
        if (strcmp(names[i], name) == 0)
            found = &table->jobs[i];
    }
    if (!found) {
        const char *nearest = text_nearest(name, names, (size_t)table->num_jobs);
        err_set(err, ERR_USAGE, name, "fit.json has no job of this name%s%s%s",
                nearest ? "; did you mean \"" : "; calibration/fit.json lists the jobs",
                nearest ? nearest : "", nearest ? "\"?" : "");
    }
    arena_release(&arena);
    return found;
}
