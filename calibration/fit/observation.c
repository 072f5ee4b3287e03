/* Loads the rows of a job and predicts them. A row is a measured run or a micro-benchmark. */
#include "calibration/fit/observation.h"

#include "base/file.h"
#include "base/length.h"
#include "base/random.h"
#include "base/text.h"
#include "calibration/score/score.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A system on which micro-benchmarks ran. */
struct loaded_system {
    struct system system;
    struct loaded_system *older;
};

/* --- selecting rows ------------------------------------------------------------------------ */

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Draws `sample` of n rows uniformly to the front (row i is swapped with row i + r mod (n - i)),
 * then sorts them. Returns their number. */
static int draw(int *rows, int n, int sample, int seed)
{
    struct random rng = { .key = (uint64_t)seed };
    if (sample <= 0 || sample >= n)
        return n;
    for (int i = 0; i < sample; i++) {
        int other = i + (int)(random_bits(&rng) % (uint64_t)(n - i));
        int row = rows[i];
        rows[i] = rows[other];
        rows[other] = row;
    }
    qsort(rows, (size_t)sample, sizeof *rows, compare_ints);
    return sample;
}

static bool measured_path(const char *name, char *path, size_t size, struct err *err)
{
    char folder[PATH_MAX];
    if (name[0] == '.' || name[0] == '/') {
        snprintf(path, size, "%s", name);
        return true;
    }
    if (!file_data_folder("calibration/measured", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration/measured",
                       "no such data folder; is SIMSEARCH_DATA right?");
    int length = snprintf(path, size, "%s/%s", folder, name);
    return (length > 0 && (size_t)length < size) ||
           err_set(err, ERR_SYSTEM, folder, "the path of %s is too long", name);
}

static struct observation *add(struct observations *to)
{
    if (to->count == to->room) {
        const struct observation *old = to->at;
        to->room = to->room ? 2 * to->room : 64;
        to->at = ARENA_ARRAY(&to->arena, struct observation, (size_t)to->room);
        if (old)
            memcpy(to->at, old, (size_t)to->count * sizeof *old);
    }
    struct observation *added = &to->at[to->count++];
    *added = (struct observation){ .run = -1, .group = "" };
    return added;
}

/* --- runs ---------------------------------------------------------------------------------- */

/* Columns of runs that a filter (the key "where" of a job's rows) may name. */
static const struct {
    const char *name;
    size_t offset;
} run_columns[] = {
    { "gpu", offsetof(struct run_row, gpu) },
    { "network", offsetof(struct run_row, network) },
    { "model_name", offsetof(struct run_row, model_name) },
    { "recompute", offsetof(struct run_row, recompute) },
    { "precision", offsetof(struct run_row, precision) },
    { "software", offsetof(struct run_row, software) },
};

/* Finds the offsets of the filters' columns in a row. */
static bool find_columns(const struct fit_rows *rows, size_t *offsets, struct err *err)
{
    enum { NUM_COLUMNS = LENGTH(run_columns) };
    for (int i = 0; i < rows->num_filters; i++) {
        const struct fit_filter *filter = &rows->filters[i];
        char where[160];
        int k = 0;
        while (k < NUM_COLUMNS && strcmp(run_columns[k].name, filter->column) != 0)
            k++;
        snprintf(where, sizeof where, "%s.where.%s", rows->where, filter->column);
        if (k == NUM_COLUMNS || !filter->text)
            return err_set(err, ERR_INPUT, where, "runs have no text column of this name");
        offsets[i] = run_columns[k].offset;
    }
    return true;
}

static bool passes(const struct run_row *row, const struct fit_rows *rows, const size_t *offsets)
{
    for (int i = 0; i < rows->num_filters; i++) {
        const char *text = *(const char *const *)((const char *)row + offsets[i]);
        if (strcmp(text, rows->filters[i].text) != 0)
            return false;
    }
    return true;
}

static bool is_measured_again(const struct run_rows *all, int row)
{
    const struct run_row *of = &all->at[row];
    for (int i = row + 1; i < all->count && *of->config_group; i++)
        if (all->at[i].core && strcmp(all->at[i].source_key, of->source_key) == 0 &&
            strcmp(all->at[i].config_group, of->config_group) == 0)
            return true;
    return false;
}

/* Chooses the rows that are scored: rows that runs.csv marks with core = 1, and of each
 * configuration only the last such row. */
static int choose_runs(const struct run_rows *all, const struct fit_rows *rows,
                       const size_t *offsets, int *chosen)
{
    int n = 0;
    for (int i = 0; i < all->count; i++)
        if (all->at[i].core && strcmp(all->at[i].source_key, rows->source) == 0 &&
            passes(&all->at[i], rows, offsets) && !is_measured_again(all, i))
            chosen[n++] = i;
    return n;
}

static bool name_runs(const struct run_rows *all, const struct fit_rows *rows, int *chosen,
                      struct err *err)
{
    for (int k = 0; k < rows->num_ids; k++) {
        char where[96];
        int i = 0;
        while (i < all->count && strcmp(all->at[i].id, rows->ids[k]) != 0)
            i++;
        snprintf(where, sizeof where, "%s.ids[%d]", rows->where, k);
        if (i == all->count)
            return err_set(err, ERR_INPUT, where, "%s has no row \"%.60s\"", rows->data,
                           rows->ids[k]);
        chosen[k] = i;
    }
    return true;
}

/* The reason why a row cannot be used; "" if it can. */
static const char *lack_of(const struct run_case *of)
{
    if (!*run_skip_reason(of) && !(run_measured_s(of->row) > 0))
        return "no time or throughput was measured";
    return run_skip_reason(of);
}

static void add_run(struct observations *to, const struct run_case *of, const struct fit_rows *rows)
{
    struct observation *o = add(to);
    o->source = *rows->name ? rows->name : of->row->source_key;
    o->id = of->row->id;
    o->group = of->row->config_group;
    o->measured_s = run_measured_s(of->row);
    o->system = of->system;
    o->run = to->num_cases++;
}

/* Adds the chosen rows that can be predicted. Fails if a row that is named by id cannot be
 * predicted, or if none of the other rows can. */
static bool add_runs(struct observations *to, const struct run_rows *all, const int *chosen, int n,
                     const struct fit_rows *rows, struct err *err)
{
    int before = to->num_cases;
    const char *lack = "no row of the measured runs has this id";
    struct run_case *cases = ARENA_ARRAY(&to->arena, struct run_case, (size_t)(before + n));
    if (before > 0)
        memcpy(cases, to->cases, (size_t)before * sizeof *cases);
    to->cases = cases;
    for (int k = 0; k < n; k++) {
        struct run_case *added = &cases[to->num_cases];
        char where[96];
        if (!run_convert(to->systems, &all->at[chosen[k]], added, err))
            return false;
        snprintf(where, sizeof where, "%s.ids[%d]", rows->where, k);
        if (*lack_of(added) && rows->ids)
            return err_set(err, ERR_INPUT, where, "cannot be predicted: %s", lack_of(added));
        if (*lack_of(added))
            lack = lack_of(added);
        else
            add_run(to, added, rows);
    }
    return to->num_cases > before ||
           err_set(err, ERR_INPUT, rows->where, "no row can be predicted: %s", lack);
}

static bool load_runs(const struct fit_rows *rows, struct observations *out, struct err *err)
{
    char path[PATH_MAX + 320];
    struct run_rows all;
    if (!rows->ids && !*rows->source)
        return err_set(err, ERR_INPUT, rows->where, "expected \"ids\" or a \"source\"");
    size_t *offsets = ARENA_ARRAY(&out->arena, size_t, (size_t)rows->num_filters);
    if (!measured_path(rows->data, path, sizeof path, err) ||
        !runs_load(path, &out->arena, &all, err) || !find_columns(rows, offsets, err))
        return false;
    int *chosen = ARENA_ARRAY(&out->arena, int, (size_t)all.count + (size_t)rows->num_ids);
    int n = rows->num_ids;
    if (rows->ids && !name_runs(&all, rows, chosen, err))
        return false;
    if (!rows->ids)
        n = draw(chosen, choose_runs(&all, rows, offsets, chosen), rows->sample, rows->seed);
    return add_runs(out, &all, chosen, n, rows, err);
}

/* --- micro-benchmarks ---------------------------------------------------------------------- */

static struct system *load_system(const struct fit_rows *rows, struct observations *out,
                                  struct err *err)
{
    struct loaded_system *loaded = ARENA_NEW(&out->arena, struct loaded_system);
    if (!*rows->cluster) {
        err_set(err, ERR_INPUT, rows->where,
                "expected a \"cluster\": the one that the benchmark ran on");
        return NULL;
    }
    if (!system_load(rows->cluster, rows->stack, 1, &loaded->system, err))
        return NULL;
    loaded->older = out->loaded;
    out->loaded = loaded;
    return &loaded->system;
}

static bool load_micros(micros_load *load, const struct fit_rows *rows, struct observations *out,
                        struct err *err)
{
    char path[PATH_MAX + 320];
    struct micros micros;
    struct system *system = load_system(rows, out, err);
    if (!system || !measured_path(rows->data, path, sizeof path, err) ||
        !load(path, rows, system, &out->arena, &micros, err))
        return false;
    int *chosen = ARENA_ARRAY(&out->arena, int, (size_t)micros.count);
    for (int i = 0; i < micros.count; i++)
        chosen[i] = i;
    int n = draw(chosen, micros.count, rows->sample, rows->seed);
    for (int k = 0; k < n; k++) {
        struct observation *o = add(out);
        o->micro = &micros.at[chosen[k]];
        o->source = *rows->name ? rows->name : rows->data;
        o->id = rows->data;
        o->measured_s = o->micro->measured_s;
        o->system = o->micro->system;
    }
    return true;
}

static bool load_products(const struct fit_rows *rows, struct observations *out, struct err *err)
{
    return load_micros(micros_load_products, rows, out, err);
}

static bool load_collectives(const struct fit_rows *rows, struct observations *out, struct err *err)
{
    return load_micros(micros_load_collectives, rows, out, err);
}

static bool load_ops(const struct fit_rows *rows, struct observations *out, struct err *err)
{
    return load_micros(micros_load_ops, rows, out, err);
}

/* --- all kinds ----------------------------------------------------------------------------- */

const struct observation_kind observation_kinds[] = {
    { "runs", "steps of training: columns of runs.csv", load_runs },
    { "products", "matrix products: m, n, k, dtype, time_us or tflops", load_products },
    { "collectives", "op, bytes, nodes, gpus, time_us", load_collectives },
    { "ops", "attention and pointwise kernels: op, shape, bytes, flops, time_us", load_ops },
};
const int num_observation_kinds = LENGTH(observation_kinds);

static bool load_set(const struct fit_rows *rows, struct observations *out, struct err *err)
{
    char where[64];
    int before = out->count;
    const struct observation_kind *kind = observation_kinds;
    while (kind < observation_kinds + num_observation_kinds && strcmp(kind->name, rows->kind) != 0)
        kind++;
    if (kind == observation_kinds + num_observation_kinds) {
        snprintf(where, sizeof where, "%s.kind", rows->where);
        return err_set(err, ERR_INPUT, where, "\"%s\" is not a kind of measurement", rows->kind);
    }
    if (!kind->load(rows, out, err))
        return false;
    if (out->count == before)
        return err_set(err, ERR_INPUT, rows->where,
                       "simsearch has no formula for any row of this kind in %s", rows->data);
    for (int i = before; i < out->count; i++)
        out->at[i].weight = rows->weight / (out->count - before);
    return true;
}

bool observations_load(const struct fit_table *table, const struct fit_job *job,
                       struct observations *out, struct err *err)
{
    *out = (struct observations){ 0 };
    out->systems = run_systems_new(NULL, NULL, err);
    if (!out->systems)
        return false;
    for (int i = 0; i < job->num_rows; i++)
        if (!load_set(&job->rows[i], out, err))
            return strncmp(err->where, "jobs[", 5) == 0 || strncmp(err->where, "curves[", 7) == 0
                       ? json_file_blame(&table->file, err)
                       : false;
    out->predictions = ARENA_ARRAY(&out->arena, struct run_prediction, (size_t)out->num_cases);
    return true;
}

void observations_release(struct observations *observations)
{
    for (struct loaded_system *at = observations->loaded; at; at = at->older)
        system_release(&at->system);
    run_systems_free(observations->systems);
    arena_release(&observations->arena);
    *observations = (struct observations){ 0 };
}

int observations_set(const struct observations *observations, const struct constant *constant,
                     double value)
{
    int found = 0;
    for (int i = 0; i < observations->count; i++)
        if (constant_is_of(constant, observations->at[i].system)) {
            constant_set(constant, observations->at[i].system, value);
            found++;
        }
    return found;
}

void observations_predict(const struct observations *observations, int jobs, double *out_s)
{
    runs_predict(observations->cases, observations->num_cases, jobs, observations->predictions);
    for (int i = 0; i < observations->count; i++) {
        const struct observation *o = &observations->at[i];
        out_s[i] = o->micro ? micro_s(o->micro) : observations->predictions[o->run].step_s;
    }
}
