/* calibration/fitted_file.h - the text of a profile or stack with the constants that fits found.
 *
 * All else in the file stays: only the job's constants, "measured", "fitted_on" and "residuals"
 * are replaced. The same results always give the same bytes. */
#ifndef CALIBRATION_FITTED_FILE_H
#define CALIBRATION_FITTED_FILE_H

#include "base/text.h"
#include "calibration/fit.h"

/* Names of the files ("profiles/a100-80g-sxm") that these results change, each once, in order; the
 * array lives in the arena. */
const char **fitted_files(const struct fit_result *results, int num_results, struct arena *arena,
                          int *num_files);

/* The shipped file with what the results found. "fitted_on" names the rows of all jobs of the table
 * that change the file, also of those that have no result here. The caller releases the text. */
bool fitted_file_text(const struct fit_table *table, const char *file,
                      const struct fit_result *results, int num_results, struct text *out,
                      struct err *err);

/* Where a file is shipped: FOLDER/calibration/profiles/NAME.json. */
bool fitted_file_path(const char *file, char *path, size_t size, struct err *err);

/* JSON as data files are laid out: what fits in 100 columns on one line, the rest broken. */
void text_add_json(struct text *out, const json_t *json);

#endif
