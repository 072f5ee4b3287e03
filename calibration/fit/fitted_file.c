/* Writes fitted constants into the text of a profile or stack file. A row is a measured run or
 * micro-benchmark. */
#include "calibration/fit/fitted_file.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_layout.h"
#include "sim/cost/provenance.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char stacks[] = "stacks/";

enum { MOST_CORRELATIONS = 5 };

/* --- texts about a fit --------------------------------------------------------------------- */

static json_t *rounded(double value, int digits)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, value);
    return json_real(strtod(text, NULL));
}

static json_t *score_json(const struct score *score)
{
    return json_pack("{s:i, s:o, s:o, s:o}", "n", score->groups, "median",
                     rounded(score->median, 2), "mean", rounded(score->mean, 2), "worst",
                     rounded(score->worst, 2));
}

static bool is_in(const struct fit_value *value, const char *file)
{
    return constant_is_in(&value->of->constant, file);
}

/* Adds a constant's name: "gemm_efficiency" in its own file, in others "stacks/megatron-2021:
 * product_efficiency". */
static void add_name(struct text *out, const struct fit_value *value, const char *file)
{
    if (!is_in(value, file))
        text_add(out, "%s: ", value->of->constant.file);
    text_add(out, "%s", value->of->constant.key);
}

static json_t *correlations_json(const struct fit_result *result, const char *file)
{
    json_t *object = json_object();
    for (int i = 0; i < result->num_correlations; i++) {
        const struct fit_correlation *c = &result->correlations[i];
        const struct fit_value *a = &result->values[c->a], *b = &result->values[c->b];
        if ((!is_in(a, file) && !is_in(b, file)) || json_object_size(object) == MOST_CORRELATIONS)
            continue;
        struct text name = { 0 };
        add_name(&name, a, file);
        text_add(&name, " ~ ");
        add_name(&name, b, file);
        json_object_set_new(object, text_get(&name), rounded(c->value, 2));
        text_release(&name);
    }
    return object;
}

/* Whether the file's constants were fitted on a row; a stack's are not fitted on
 * micro-benchmarks. */
static bool rests_on(const struct fit_result *result, const char *file, int row)
{
    const struct observation *o = &result->rows.at[row];
    for (int j = 0; j < result->num_values; j++)
        if (is_in(&result->values[j], file) &&
            constant_is_of(&result->values[j].of->constant, o->system))
            return !(o->micro && result->values[j].of->constant.is_of_stack);
    return false;
}

static bool source_rests_on(const struct fit_result *result, const char *file, const char *source)
{
    for (int i = 0; i < result->rows.count; i++)
        if (strcmp(result->rows.at[i].source, source) == 0 && rests_on(result, file, i))
            return true;
    return false;
}

static json_t *in_sample_json(const struct fit_result *result, const char *file)
{
    json_t *object = json_object();
    for (int i = 0; i < result->num_sources; i++) {
        const struct fit_source *source = &result->sources[i];
        if (source_rests_on(result, file, source->name))
            json_object_set_new(object, source->name, score_json(&source->in_sample));
    }
    return object;
}

/* Standard errors are of the constants' logarithms, so they are relative errors. */
static json_t *residuals_json(const struct fit_result *result, const char *file)
{
    json_t *standard_errors = json_object();
    json_t *bounds = json_array();
    json_t *correlations = correlations_json(result, file);
    for (int j = 0; j < result->num_values; j++) {
        const struct fit_value *value = &result->values[j];
        const char *key = value->of->constant.key;
        if (is_in(value, file) && value->is_at_bound)
            json_array_append_new(bounds, json_string(key));
        else if (is_in(value, file))
            json_object_set_new(standard_errors, key, rounded(value->standard_error, 2));
    }
    json_t *object = json_pack("{s:o, s:O}", "in_sample", in_sample_json(result, file),
                               "standard_errors", standard_errors);
    if (json_array_size(bounds) > 0)
        json_object_set(object, "at_bound", bounds);
    if (json_object_size(correlations) > 0)
        json_object_set(object, "correlations", correlations);
    json_decref(standard_errors);
    json_decref(bounds);
    json_decref(correlations);
    return object;
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool changes(const struct fit_result *result, const char *file)
{
    for (int j = 0; j < result->num_values; j++)
        if (is_in(&result->values[j], file))
            return true;
    return false;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Rows that are already listed stay, as other constants of the file may have been fitted on
 * them. */
static json_t *fitted_on(const json_t *shipped, const char *file, const struct fit_result *results,
                         int num_results)
{
    struct arena arena = { 0 };
    size_t most = json_array_size(shipped);
    size_t n = 0;
    for (int r = 0; r < num_results; r++)
        most += (size_t)results[r].rows.count;
    const char **ids = ARENA_ARRAY(&arena, const char *, most);
    for (size_t i = 0; i < json_array_size(shipped); i++)
        ids[n++] = json_string_value(json_array_get(shipped, i));
    for (int r = 0; r < num_results; r++)
        for (int i = 0; i < results[r].rows.count; i++)
            if (rests_on(&results[r], file, i))
                ids[n++] = results[r].rows.at[i].id;
    if (n > 0)
        qsort(ids, n, sizeof *ids, compare_texts);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(ids[i - 1], ids[i]) != 0)
            json_array_append_new(list, json_string(ids[i]));
    arena_release(&arena);
    return list;
}

/* --- the file ------------------------------------------------------------------------------ */

static void add_file(struct fitted_files *files, const char *file, struct arena *arena)
{
    for (int i = 0; i < files->count; i++)
        if (strcmp(files->at[i], file) == 0)
            return;
    const char **grown = ARENA_ARRAY(arena, const char *, (size_t)files->count + 1);
    if (files->count > 0)
        memcpy(grown, files->at, (size_t)files->count * sizeof *grown);
    grown[files->count++] = arena_text(arena, file);
    files->at = grown;
}

/* Adds all shipped profiles. Profiles without fitted constants are included, because the width of
 * their shift is stored too. */
static void add_profiles(struct fitted_files *files, struct arena *arena)
{
    char folder[PATH_MAX], file[128];
    size_t count = 0;
    if (!file_data_folder("calibration/profiles", folder, sizeof folder))
        return;
    char **names = file_list_json(folder, &count);
    for (size_t i = 0; i < count; i++) {
        snprintf(file, sizeof file, "profiles/%s", names[i]);
        add_file(files, file, arena);
        free(names[i]);
    }
    free(names);
}

struct fitted_files fitted_files_list(const struct findings *findings, struct arena *arena)
{
    struct fitted_files files = { 0 };
    const struct fit_result *results = findings->results;
    char file[128];
    for (int r = 0; r < findings->num_results; r++)
        for (int j = 0; j < results[r].num_values; j++)
            for (int i = 0; constant_file(&results[r].values[j].of->constant, i, file, sizeof file);
                 i++)
                add_file(&files, file, arena);
    for (int i = 0; findings->curves && i < findings->curves->count; i++)
        add_file(&files, findings->curves->at[i].of->file, arena);
    for (int i = 0; findings->families && i < findings->families->count; i++) {
        snprintf(file, sizeof file, "%s%s", stacks, findings->families->at[i].stack);
        add_file(&files, file, arena);
    }
    if (findings->families)
        add_profiles(&files, arena);
    return files;
}

bool fitted_file_path(const char *file, char *path, size_t size, struct err *err)
{
    char folder[PATH_MAX];
    if (!file_data_folder("calibration", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration",
                       "no such data folder; is SIMSEARCH_DATA right?");
    int length = snprintf(path, size, "%s/%s.json", folder, file);
    return (length > 0 && (size_t)length < size) ||
           err_set(err, ERR_SYSTEM, folder, "the path of %s is too long", file);
}

static json_t *residuals_of(json_t *root)
{
    json_t *residuals = json_object_get(root, "residuals");
    if (!residuals) {
        residuals = json_object();
        json_object_set_new(root, "residuals", residuals);
    }
    return residuals;
}

static bool store(const struct fit_result *result, const char *file, json_t *root, struct err *err)
{
    for (int j = 0; j < result->num_values; j++) {
        const struct fit_value *value = &result->values[j];
        if (is_in(value, file) && !constant_store(&value->of->constant, value->value, root, err))
            return false;
    }
    json_object_set_new(residuals_of(root), result->job->name, residuals_json(result, file));
    return true;
}

static bool any_run_rests_on(const struct fit_result *results, int num_results, const char *file)
{
    for (int r = 0; r < num_results; r++)
        for (int i = 0; i < results[r].rows.count; i++)
            if (!results[r].rows.at[i].micro && rests_on(&results[r], file, i))
                return true;
    return false;
}

/* Stores a stack's widths; a stack without rows gets the pooled widths. */
static void store_widths(const struct family_widths *family, json_t *root)
{
    json_object_set_new(root, "errors",
                        fields_write(error_width_fields, num_error_width_fields, &family->widths));
    json_object_del(root, "error_log");
    json_object_set_new(root, "memory_error", json_real(family->memory));
    if (family->memory_shift != 0)
        json_object_set_new(root, "memory_shift", json_real(family->memory_shift));
    else
        json_object_del(root, "memory_shift");
    json_t *said = json_pack("{s:i}", "n", family->rows);
    if (family->rows > 0) {
        json_object_set_new(said, "covered", rounded(family->covered, 3));
        json_object_set_new(said, "left_out", rounded(family->left_out, 3));
    }
    json_object_set_new(residuals_of(root), "intervals", said);
}

static void store_slice(const struct slice_trend *slice, json_t *root)
{
    if (slice->width > 0) {
        json_object_set_new(root, "slice_error", rounded(slice->width, 3));
        json_object_set_new(root, "usual_slice", rounded(slice->usual, 3));
    } else {
        json_object_del(root, "slice_error");
        json_object_del(root, "usual_slice");
    }
}

static void store_shift(double shift, json_t *root)
{
    if (shift > 0)
        json_object_set_new(root, "source_error", rounded(shift, 3));
    else
        json_object_del(root, "source_error");
}

/* Either all curves of a file are fitted, or none. */
static void store_curves(const char *file, const struct curve_results *curves, json_t *root)
{
    json_t *list = json_array();
    json_t *said = json_object();
    for (int i = 0; i < curves->count; i++) {
        const struct curve_result *result = &curves->at[i];
        char name[64];
        if (strcmp(result->of->file, file) != 0)
            continue;
        snprintf(name, sizeof name, "%s of %d", collective_names[result->curve.collective],
                 result->curve.num_ranks);
        json_array_append_new(list, curve_write(&result->curve));
        json_object_set_new(said, name, score_json(&result->errors));
    }
    if (json_array_size(list) > 0) {
        json_object_set(root, "collectives", list);
        json_object_set(residuals_of(root), "curves", said);
    }
    json_decref(list);
    json_decref(said);
}

/* Whether the profile's rates of matrix products come from another GPU or a datasheet. Such a
 * profile can still have fitted rows, if another of its constants was fitted jointly with other
 * GPUs. */
static bool is_from_elsewhere(const json_t *root)
{
    const char *products =
        json_string_value(json_object_get(json_object_get(root, "provenance"), "products"));
    return products && strcmp(products, fitted_here) != 0;
}

static bool update(const char *file, const struct findings *findings, json_t *root, struct err *err)
{
    const struct fit_result *results = findings->results;
    int num_results = findings->num_results;
    bool is_stack = strncmp(file, stacks, strlen(stacks)) == 0;
    const struct family_widths *family =
        is_stack && findings->families ? families_of(findings->families, file + strlen(stacks))
                                       : NULL;
    json_t *rows = fitted_on(json_object_get(root, "fitted_on"), file, results, num_results);
    if (json_array_size(rows) > 0 || json_object_get(root, "fitted_on"))
        json_object_set(root, "fitted_on", rows);
    json_decref(rows);
    if (family) {
        bool is_new = json_array_size(json_object_get(root, "fitted_on")) == 0;
        store_widths(family, root);
        static const struct slice_trend none = { 0 };
        store_shift(is_new ? findings->families->shift[TIER_NEW_STACK] : 0, root);
        store_slice(is_new ? &findings->families->slice : &none, root);
    }
    if (findings->curves)
        store_curves(file, findings->curves, root);
    if (strncmp(file, "profiles/", strlen("profiles/")) == 0 &&
        any_run_rests_on(results, num_results, file) && !is_from_elsewhere(root))
        json_object_set_new(root, "measured", json_true());
    if (!is_stack && findings->families)
        store_shift(json_is_true(json_object_get(root, "measured"))
                        ? 0
                        : findings->families->shift[TIER_NEW_GPU],
                    root);
    for (int r = 0; r < num_results; r++)
        if (changes(&results[r], file) && !store(&results[r], file, root, err))
            return false;
    return true;
}

bool fitted_file_text(const char *file, const struct findings *findings, struct text *out,
                      struct err *err)
{
    char path[PATH_MAX];
    struct json_file shipped = { 0 };
    bool ok = fitted_file_path(file, path, sizeof path, err) &&
              json_file_load(&shipped, path, err) && update(file, findings, shipped.root, err);
    if (ok)
        text_add_json(out, shipped.root);
    json_file_release(&shipped);
    return ok;
}
