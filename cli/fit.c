/* cli/fit.c - fits the constants of profiles and stacks on the shipped measurements. */
#include "base/arena.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "calibration/fit/fitted_file.h"
#include "calibration/fit/source_shifts.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/score/fit_view.h"
#include "cli/score/leave_out.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The requested jobs and their results. */
struct fitting {
    struct arena arena;
    struct fit_table table;
    struct fit_result *results;
    int num_results;
    struct curve_results curves;
    struct families families;
    bool is_whole; /* all jobs ran, so curves and intervals were fitted too */
    bool has_families;
    struct fitted_files files; /* files that the results change */
    struct text *texts;        /* contents of `files` */
};

/* --- jobs ------------------------------------------------------------------------------------ */

static bool is_wanted(const struct fit_job *job, const struct options *options)
{
    for (int i = 0; i < options->num_files; i++)
        if (strcmp(options->files[i], job->name) == 0)
            return true;
    return options->num_files == 0;
}

/* Runs the jobs. --check skips cross-validation, which does not change the files. */
static bool run_jobs(struct fitting *f, const struct options *options, struct err *err)
{
    int threads = options->jobs > 0 ? options->jobs : parallel_cores();
    for (int i = 0; i < options->num_files; i++)
        if (!fit_table_find(&f->table, options->files[i], err))
            return false;
    f->results = ARENA_ARRAY(&f->arena, struct fit_result, (size_t)f->table.num_jobs);
    for (int i = 0; i < f->table.num_jobs; i++) {
        const struct fit_job *job = &f->table.jobs[i];
        if (!is_wanted(job, options))
            continue;
        int earlier = f->num_results++;
        if (!fit_run(&f->table, job, f->results, earlier, threads,
                     !options->fit.check && !options->quiet, &f->results[earlier], err))
            return false;
    }
    return true;
}

static bool find_shifts(struct families *families, struct err *err)
{
    struct source_shifts shifts;
    bool ok = source_shifts_load(&shifts, err);
    for (int tier = 0; tier < NUM_TIERS && ok; tier++)
        families->shift[tier] = shift_width(&shifts, (enum tier)tier, NULL);
    if (ok)
        families->slice = slice_trend_find(&shifts, NULL);
    source_shifts_release(&shifts);
    return ok;
}

/* Fits curves and intervals. Errors depend on all constants together, so all jobs must have run. */
static bool find_rest(struct fitting *f, const struct options *options, struct err *err)
{
    int threads = options->jobs > 0 ? options->jobs : parallel_cores();
    f->is_whole = options->num_files == 0;
    f->has_families = f->is_whole && f->table.intervals.prior_rows > 0;
    if (f->is_whole && !curves_fit(&f->table, &f->curves, err))
        return false;
    return !f->has_families ||
           (families_find(&f->table, f->results, f->num_results, threads, &f->families, err) &&
            find_shifts(&f->families, err));
}

static struct findings findings_of(const struct fitting *f)
{
    return (struct findings){ f->results, f->num_results, f->is_whole ? &f->curves : NULL,
                              f->has_families ? &f->families : NULL };
}

static bool make_texts(struct fitting *f, struct err *err)
{
    struct findings findings = findings_of(f);
    f->files = fitted_files_list(&findings, &f->arena);
    f->texts = ARENA_ARRAY(&f->arena, struct text, (size_t)f->files.count);
    for (int i = 0; i < f->files.count; i++)
        if (!fitted_file_text(f->files.at[i], &findings, &f->texts[i], err))
            return false;
    return true;
}

/* --- files ----------------------------------------------------------------------------------- */

static bool make_folder(const char *path, struct err *err)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ||
           err_set(err, ERR_SYSTEM, path, "cannot be made: %s", strerror(errno));
}

static bool write_file(const char *folder, const char *file, const struct text *text,
                       struct err *err)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s.json", folder, file);
    if (length < 0 || (size_t)length >= sizeof path)
        return err_set(err, ERR_USAGE, "--output", "the path of %s is too long", file);
    *strrchr(path, '/') = '\0';
    if (!make_folder(path, err))
        return false;
    path[strlen(path)] = '/';
    return file_write(path, text_get(text), text->length, err);
}

static bool write_files(const struct fitting *f, const char *folder, struct err *err)
{
    if (!make_folder(folder, err))
        return false;
    for (int i = 0; i < f->files.count; i++)
        if (!write_file(folder, f->files.at[i], &f->texts[i], err))
            return false;
    return true;
}

/* Whether the shipped file equals this text. */
static bool is_shipped(const char *file, const struct text *text, bool *same, struct err *err)
{
    char path[PATH_MAX];
    size_t length;
    if (!fitted_file_path(file, path, sizeof path, err))
        return false;
    char *shipped = file_read(path, FILE_MAX_BYTES, &length, err);
    if (!shipped)
        return false;
    *same = length == text->length && memcmp(shipped, text_get(text), length) == 0;
    free(shipped);
    return true;
}

static int check_files(const struct fitting *f, struct err *err)
{
    int changed = 0;
    for (int i = 0; i < f->files.count; i++) {
        bool same = false;
        if (!is_shipped(f->files.at[i], &f->texts[i], &same, err))
            return exit_code_of(err);
        printf("%-8s calibration/%s.json\n", same ? "same" : "changed", f->files.at[i]);
        changed += !same;
    }
    if (changed > 0)
        err_set(err, ERR_SYSTEM, "", "%d of %d shipped files would change", changed,
                f->files.count);
    return exit_code_of(err);
}

/* --- the command ----------------------------------------------------------------------------- */

static int fit(struct fitting *f, const struct options *options, struct err *err)
{
    if (!fit_table_load(options->fit.table, &f->table, err))
        return exit_code_of(err);
    if (options->fit.leave_out)
        return leave_out_show(&f->table, options, err) ? EXIT_DONE : exit_code_of(err);
    if (!run_jobs(f, options, err) || !find_rest(f, options, err) || !make_texts(f, err))
        return exit_code_of(err);
    if (options->fit.check)
        return check_files(f, err);
    if (options->output && !write_files(f, options->output, err))
        return exit_code_of(err);
    struct findings findings = findings_of(f);
    if (options->json)
        fit_print_json(&findings);
    else
        fit_print(&findings);
    return EXIT_DONE;
}

static void release(struct fitting *f)
{
    for (int i = 0; i < f->files.count && f->texts; i++)
        text_release(&f->texts[i]);
    for (int r = 0; r < f->num_results; r++)
        fit_result_release(&f->results[r]);
    curves_release(&f->curves);
    families_release(&f->families);
    fit_table_release(&f->table);
    arena_release(&f->arena);
}

int cmd_fit(int argc, char **argv, struct err *err)
{
    struct options options;
    struct fitting f = { 0 };
    if (!options_parse(COMMAND_FIT, MAX_FILES, argc, argv, &options, err))
        return exit_code_of(err);
    int code = EXIT_USAGE;
    if (options_answer_is_hidden(&options))
        err_set(err, ERR_USAGE, "--output", "expected a folder; found -, standard output");
    else
        code = fit(&f, &options, err);
    release(&f);
    return code;
}
