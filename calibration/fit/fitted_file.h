/* calibration/fit/fitted_file.h - the text of a profile or stack with fitted constants.
 *
 * Only these keys of the file are replaced: the job's constants, "collectives", "errors",
 * "measured", "fitted_on" and "residuals". The same results always give the same bytes. */
#ifndef CALIBRATION_FIT_FITTED_FILE_H
#define CALIBRATION_FIT_FITTED_FILE_H

#include "base/text.h"
#include "calibration/fit/curve_fit.h"
#include "calibration/fit/stack_widths.h"

struct fitted_files {
    const char **at; /* such as "profiles/a100-80g-sxm" */
    int count;
};

/* Results of fits. */
struct findings {
    const struct fit_result *results;
    int num_results;
    const struct curve_results *curves; /* NULL: curves stay unchanged */
    const struct families *families;    /* NULL: intervals stay unchanged */
};

/* The files that these findings change, each once, in alphabetical order; the array lives in the
 * arena. */
struct fitted_files fitted_files_list(const struct findings *findings, struct arena *arena);

/* The text of the shipped file with the results. The rows of the fit are added to "fitted_on";
 * "errors" replaces "error_log". The caller releases the text. */
bool fitted_file_text(const char *file, const struct findings *findings, struct text *out,
                      struct err *err);

/* The path of a shipped file, such as FOLDER/calibration/profiles/NAME.json. */
bool fitted_file_path(const char *file, char *path, size_t size, struct err *err);

#endif
