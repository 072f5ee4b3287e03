/* Finds shifts. The shift is the error that all runs of a source (a publication) have in common. A
 * tier says whether other sources measured the same stack and the same GPU. */
#include "calibration/fit/source_shifts.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_layout.h"
#include "base/length.h"
#include "base/normal.h"
#include "base/statistics.h"
#include "sim/engine/interval.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCES = 10000 };

/* The prior of a tier's shift: a half width of 0.2, with the weight of two sources. Profiles and
 * stacks that were taken from publications state half widths (error_log) of 0.1 to 0.3. */
static const double prior_width = 0.2, prior_sources = 2;

static const char *const tiers_with_end[] = { "seen", "new_stack", "new_gpu", NULL };

#define NUMBER(member) .kind = FIELD_NUMBER, .offset = offsetof(struct source_shift, member)

// clang-format off
static const struct field shift_fields[] = {
    { .name = "source", .kind = FIELD_TEXT, .offset = offsetof(struct source_shift, source),
      .size = sizeof((struct source_shift *)0)->source, .doc = "Key of the source that is left out of the fit." },
    { .name = "tier", .kind = FIELD_NAME, .offset = offsetof(struct source_shift, tier),
      .names = tiers_with_end, .doc = "Whether other sources ran on its stack and GPU (seen), not on its stack (new_stack), or not on its GPU (new_gpu)." },
    { .name = "groups", .kind = FIELD_INT, .offset = offsetof(struct source_shift, groups), .min = 1,
      .max = 1e6, .doc = "Number of its dense configurations." },
    { .name = "median", NUMBER(median), .doc = "Median of the absolute errors of its rows." },
    { .name = "mean", NUMBER(mean), .doc = "Mean of these absolute errors." },
    { .name = "p90", NUMBER(p90), .doc = "90th percentile of these absolute errors." },
    { .name = "worst", NUMBER(worst), .doc = "Largest of these absolute errors." },
    { .name = "bias", NUMBER(bias), .doc = "Median of the signed errors." },
    { .name = "scatter", NUMBER(scatter),
      .doc = "Standard deviation of the errors around their bias: the 90th percentile of their distances from it, divided by 1.645." },
    { .name = "spread", NUMBER(spread), .doc = "Median distance of the errors from their bias." },
    { .name = "slope", NUMBER(slope), .min = -10, .max = 10,
      .doc = "Mean change of its rows' errors if the width of a tensor rank's slice (hidden size "
             "/ tp) grows by the factor e; 0: its slices have nearly equal widths." },
    { .name = "slice", NUMBER(slice), .doc = "Geometric mean of these widths, in columns." },
    { .name = "needs", .kind = FIELD_OTHER,
      .doc = "Quantiles, over the rows, of the half width that the interval of the source's shift must have to cover the row." },
};
static const struct field file_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "source", .kind = FIELD_OTHER, .doc = "Program that wrote the file." },
    { .name = "sources", .kind = FIELD_OTHER, .doc = "One object per source, sorted by tier." },
};
// clang-format on

/* --- the file ------------------------------------------------------------------------------ */

static bool read_needs(const json_t *list, struct source_shift *out, struct err *err)
{
    if (json_array_size(list) != NUM_NEEDS)
        return err_set(err, ERR_INPUT, "needs", "expected %d numbers; found %zu", NUM_NEEDS,
                       json_array_size(list));
    for (size_t i = 0; i < NUM_NEEDS; i++) {
        const json_t *value = json_array_get(list, i);
        out->needs[i] = json_number_value(value);
        if (!json_is_number(value) || out->needs[i] < (i > 0 ? out->needs[i - 1] : 0))
            return err_set(err, ERR_INPUT, "needs",
                           "expected numbers of 0 or more in ascending order");
    }
    return true;
}

static bool read_shifts(const json_t *root, struct source_shifts *out, struct err *err)
{
    const json_t *list = json_object_get(root, "sources");
    size_t count = json_array_size(list);
    struct source_shift none;
    if (!fields_read(file_fields, LENGTH(file_fields), root, &none, err))
        return false;
    if (!json_is_array(list) || count > MOST_SOURCES)
        return err_set(err, ERR_INPUT, "sources", "expected a list of at most %d", MOST_SOURCES);
    out->at = ARENA_ARRAY(&out->arena, struct source_shift, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        struct source_shift *shift = &out->at[out->count++];
        if (!fields_read(shift_fields, LENGTH(shift_fields), object, shift, err) ||
            !read_needs(json_object_get(object, "needs"), shift, err))
            return err_within_item(err, "sources", i);
    }
    return true;
}

bool source_shifts_load(struct source_shifts *out, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    struct json_file file;
    *out = (struct source_shifts){ 0 };
    if (!file_data_folder("calibration", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration",
                       "no such data folder; is SIMSEARCH_DATA right?");
    snprintf(path, sizeof path, "%s/left_out.json", folder);
    if (!json_file_load(&file, path, err))
        return false;
    bool ok = read_shifts(file.root, out, err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

/* Rounds to three digits after the decimal point. */
static double thousandths(double value)
{
    return round(1e3 * value) / 1e3;
}

void source_shifts_write(const struct source_shifts *shifts, struct text *out)
{
    json_t *list = json_array();
    for (int i = 0; i < shifts->count; i++) {
        json_t *object = fields_write(shift_fields, LENGTH(shift_fields), &shifts->at[i]);
        json_t *needs = json_array();
        for (int k = 0; k < NUM_NEEDS; k++)
            json_array_append_new(needs, json_real(shifts->at[i].needs[k]));
        json_object_set_new(object, "needs", needs);
        json_array_append_new(list, object);
    }
    json_t *root =
        json_pack("{s:i, s:s, s:o}", "format", 1, "source",
                  "`simsearch fit --leave-out all`: each source predicted by constants that are "
                  "fitted without it. `needs`: quantiles, 0 to 1 by 0.05, over its dense rows",
                  "sources", list);
    text_add_json(out, root);
    json_decref(root);
}

void source_shifts_release(struct source_shifts *shifts)
{
    arena_release(&shifts->arena);
    *shifts = (struct source_shifts){ 0 };
}

/* --- shifts from errors -------------------------------------------------------------------- */

/* Standard deviation of errors about the bias, from their 90th percentile: 90 % of normal errors
 * lie within 1.645 standard deviations. A percentile is used because a few rows have other causes
 * of error. */
static double scatter_of(const double *errors, int n, double bias, double *room, double *spread)
{
    for (int i = 0; i < n; i++)
        room[i] = fabs(errors[i] - bias);
    numbers_sort(room, (size_t)n);
    *spread = sorted_quantile(room, n, 0.5);
    return sorted_quantile(room, n, 0.9) / normal_90;
}

/* Errors beyond this have other causes than the width of slices. */
static const double largest_error = 0.35;
/* Least standard deviation of ln(slice) with which a slope is computed: that of two slices of which
 * one is 1.6 times as wide as the other. */
static const double least_spread = 0.23;

/* Least squares of the errors on ln(slice); sets the source's slope and mean slice. */
static void set_slope(const struct left_out_row *const *rows, int n, struct source_shift *to)
{
    double mean = 0, squares = 0, products = 0;
    for (int i = 0; i < n; i++)
        mean += rows[i]->slice / n;
    for (int i = 0; i < n; i++) {
        double error = rows[i]->error - to->bias;
        double from_mean = rows[i]->slice - mean;
        squares += from_mean * from_mean;
        products += from_mean * fmin(fmax(error, -largest_error), largest_error);
    }
    to->slice = round(exp(mean));
    if (n >= FEWEST_FOR_SLOPE && squares > n * least_spread * least_spread)
        to->slope = thousandths(products / squares);
}

static int rows_of(const struct left_out *source, enum tier tier, const struct left_out_row **out)
{
    int n = 0;
    for (int i = 0; i < source->num_rows; i++)
        if (source->rows[i].is_dense && source->rows[i].tier == tier)
            out[n++] = &source->rows[i];
    return n;
}

static void add_shift(const struct left_out *source, enum tier tier, struct source_shifts *out)
{
    struct arena scratch = { 0 };
    size_t most = (size_t)source->num_rows;
    const struct left_out_row **rows = ARENA_ARRAY(&scratch, const struct left_out_row *, most);
    double *errors = ARENA_ARRAY(&scratch, double, most);
    double *room = ARENA_ARRAY(&scratch, double, most);
    int n = rows_of(source, tier, rows);
    for (int i = 0; i < n; i++)
        errors[i] = rows[i]->error;
    if (n > 0) {
        struct source_shift *to = &out->at[out->count++];
        struct score score = score_errors(errors, n);
        *to = (struct source_shift){ .tier = (int)tier,
                                     .groups = n,
                                     .median = thousandths(score.median),
                                     .mean = thousandths(score.mean),
                                     .p90 = thousandths(score.p90),
                                     .worst = thousandths(score.worst),
                                     .bias = thousandths(score.bias) };
        to->scatter = thousandths(scatter_of(errors, n, score.bias, room, &to->spread));
        to->spread = thousandths(to->spread);
        snprintf(to->source, sizeof to->source, "%s", source->source);
        set_slope(rows, n, to);
    }
    arena_release(&scratch);
}

/* The shift with which a row's error just lies within its interval: error^2 = width^2 + slice^2 +
 * shift^2. */
static double need_of(const struct left_out_row *row, double of_slice)
{
    double rest = row->error * row->error - row->width * row->width - of_slice * of_slice;
    return rest > 0 ? sqrt(rest) : 0;
}

double slice_width(const struct slice_trend *trend, enum tier tier, double log_slice)
{
    return tier == TIER_NEW_STACK ? interval_of_slice(trend->width, trend->usual, log_slice) : 0;
}

static void set_needs(const struct left_out *source, const struct source_shifts *known,
                      struct source_shift *to)
{
    struct arena scratch = { 0 };
    enum tier tier = (enum tier)to->tier;
    const struct left_out_row **rows =
        ARENA_ARRAY(&scratch, const struct left_out_row *, (size_t)source->num_rows);
    double *needs = ARENA_ARRAY(&scratch, double, (size_t)source->num_rows);
    struct slice_trend trend = slice_trend_find(known, to->source);
    int n = rows_of(source, tier, rows);
    for (int i = 0; i < n; i++)
        needs[i] = need_of(rows[i], slice_width(&trend, tier, rows[i]->slice));
    numbers_sort(needs, (size_t)n);
    for (int k = 0; k < NUM_NEEDS; k++)
        to->needs[k] = thousandths(sorted_quantile(needs, n, (double)k / (NUM_NEEDS - 1)));
    arena_release(&scratch);
}

void source_shifts_find(const struct left_out *sources, int count,
                        const struct source_shifts *known, struct source_shifts *out)
{
    *out = (struct source_shifts){ 0 };
    out->at = ARENA_ARRAY(&out->arena, struct source_shift, (size_t)count * NUM_TIERS);
    for (int tier = 0; tier < NUM_TIERS; tier++)
        for (int i = 0; i < count; i++)
            add_shift(&sources[i], (enum tier)tier, out);
    for (int k = 0; k < out->count; k++)
        for (int i = 0; i < count; i++)
            if (strcmp(sources[i].source, out->at[k].source) == 0)
                set_needs(&sources[i], known ? known : out, &out->at[k]);
}

/* --- widths -------------------------------------------------------------------------------- */

double shift_covers(const struct source_shift *of, double width)
{
    int k = 0;
    while (k < NUM_NEEDS && of->needs[k] <= width)
        k++;
    if (k == 0 || k == NUM_NEEDS)
        return k > 0;
    double step = of->needs[k] - of->needs[k - 1];
    double within = step > 0 ? (width - of->needs[k - 1]) / step : 0;
    return (k - 1 + within) / (NUM_NEEDS - 1);
}

/* The 95 % quantile of Student's t distribution; 90 % of the values lie within plus or minus this
 * quantile. Expansion in 1/n about the normal quantile (Abramowitz and Stegun 1964, 26.7.5); error
 * below 0.01 for n >= 3.
 * */
static double student_90(double n)
{
    double z = normal_90;
    double z2 = z * z;
    return z + z * (z2 + 1) / (4 * n) + z * ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
           z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n);
}

struct slice_trend slice_trend_find(const struct source_shifts *shifts, const char *without)
{
    double squares = 0, logs = 0;
    int slopes = 0, slices = 0;
    for (int i = 0; i < shifts->count; i++) {
        const struct source_shift *of = &shifts->at[i];
        if (of->tier == TIER_SEEN || of->groups < FEWEST_FOR_SLOPE ||
            (without && strcmp(of->source, without) == 0))
            continue;
        logs += log(of->slice);
        slices++;
        squares += of->slope * of->slope;
        slopes += of->slope != 0;
    }
    if (slopes < 2)
        return (struct slice_trend){ 0 };
    return (struct slice_trend){ student_90(slopes) * sqrt(squares / slopes), exp(logs / slices) };
}

/* A source's estimate of the shift's standard deviation: its bias or, if that is larger, the shift
 * that covers nine tenths of its rows, divided by 1.645. The second is larger if the rows scatter
 * more than those of other sources. */
static double deviation_of(const struct source_shift *of)
{
    int ninth_tenth = 9 * (NUM_NEEDS - 1) / 10;
    return fmax(fabs(of->bias), of->needs[ninth_tenth] / normal_90);
}

struct shift_prior shift_prior_find(const struct source_shifts *shifts, enum tier tier,
                                    const char *without)
{
    double squares = prior_sources * (prior_width / normal_90) * (prior_width / normal_90);
    double count = prior_sources;
    for (int i = 0; i < shifts->count; i++) {
        const struct source_shift *of = &shifts->at[i];
        if ((tier != TIER_SEEN && of->tier != (int)tier) || of->groups < FEWEST_SHIFT_ROWS ||
            (without && strcmp(of->source, without) == 0))
            continue;
        squares += of->bias * of->bias;
        count++;
    }
    return (struct shift_prior){ sqrt(squares / count), count };
}

/* 0 for TIER_SEEN: rows of a measured stack and GPU have no shift (calibration/fit/widths.h). */
double shift_width(const struct source_shifts *shifts, enum tier tier, const char *without)
{
    double squares = prior_sources * (prior_width / normal_90) * (prior_width / normal_90);
    double count = prior_sources;
    for (int i = 0; i < shifts->count; i++) {
        const struct source_shift *of = &shifts->at[i];
        if (of->tier != (int)tier || (without && strcmp(of->source, without) == 0))
            continue;
        squares += deviation_of(of) * deviation_of(of);
        count++;
    }
    if (tier == TIER_SEEN || count <= prior_sources)
        return 0;
    return student_90(count) * sqrt(squares / count);
}
