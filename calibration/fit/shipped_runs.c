/* Predicts the measured runs that are shipped with the program. */
#include "calibration/fit/shipped_runs.h"

#include "base/file.h"
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool shipped_runs_load(struct arena *arena, struct run_rows *rows, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    if (!file_data_folder("calibration/measured", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration/measured",
                       "no such data folder; is SIMSEARCH_DATA right?");
    snprintf(path, sizeof path, "%s/runs.csv", folder);
    return runs_load(path, arena, rows, err);
}

static bool keep_source(struct run_rows *rows, const char *source, struct arena *arena,
                        struct err *err)
{
    const char **names = ARENA_ARRAY(arena, const char *, (size_t)rows->count);
    int count = rows->count;
    rows->count = 0;
    for (int i = 0; i < count; i++) {
        names[i] = rows->at[i].source_key;
        if (strcmp(names[i], source) == 0)
            rows->at[rows->count++] = rows->at[i];
    }
    if (rows->count > 0)
        return true;
    const char *nearest = text_nearest(source, names, (size_t)count);
    return err_set(err, ERR_USAGE, "--leave-out", "no row has the source \"%s\"%s%s%s", source,
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                   nearest ? "\"?" : "");
}

static void use_results(const struct fit_result *results, int num_results,
                        const struct run_case *cases, int count)
{
    for (int r = 0; r < num_results; r++)
        for (int j = 0; j < results[r].num_values; j++)
            for (int i = 0; i < count; i++) {
                const struct constant *constant = &results[r].values[j].of->constant;
                if (!*cases[i].skip && constant_is_of(constant, cases[i].system))
                    constant_set(constant, cases[i].system, results[r].values[j].value);
            }
}

bool shipped_runs_predict(const char *source, const struct fit_result *results, int num_results,
                          int jobs, struct arena *arena, struct shipped_runs *out, struct err *err)
{
    *out = (struct shipped_runs){ .systems = run_systems_new(NULL, NULL, err) };
    if (!out->systems || !shipped_runs_load(arena, &out->rows, err) ||
        (source && !keep_source(&out->rows, source, arena, err)))
        return false;
    size_t room = (size_t)out->rows.count;
    out->cases = ARENA_ARRAY(arena, struct run_case, room);
    out->predictions = ARENA_ARRAY(arena, struct run_prediction, room);
    for (int i = 0; i < out->rows.count; i++)
        if (!run_convert(out->systems, &out->rows.at[i], &out->cases[i], err))
            return false;
    use_results(results, num_results, out->cases, out->rows.count);
    runs_predict(out->cases, out->rows.count, jobs, out->predictions);
    out->scores = runs_score(out->cases, out->predictions, out->rows.count, arena);
    return true;
}

void shipped_runs_release(struct shipped_runs *runs)
{
    run_systems_free(runs->systems);
    *runs = (struct shipped_runs){ 0 };
}
