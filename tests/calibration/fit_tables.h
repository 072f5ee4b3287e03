/* tests/calibration/fit_tables.h - makes the input of `fit`: tables of jobs (a job fits some
 * constants to measurements), and measurements that follow from known constants. */
#ifndef TESTS_CALIBRATION_FIT_TABLES_H
#define TESTS_CALIBRATION_FIT_TABLES_H

#include "calibration/fit/fit.h"

/* The folder of a test's files. fit_folder_make makes it before each test, and fit_folder_remove
 * removes it afterwards. */
extern char fit_folder[64];
void fit_folder_make(void);
void fit_folder_remove(void);
void fit_path(const char *name, char *path, size_t size);
void fit_write_text(const char *name, const char *text);
char *fit_read_text(const char *path); /* the text of a file; the caller frees it */

/* Loads a table of jobs; '@' in its text is replaced by the test's folder. Release it with
 * fit_table_release. */
void fit_load_table(const char *jobs, struct fit_table *table);

/* Fills the empty last column of a job's data with the times that the cost model predicts if the
 * job's fitted constants are `true_values`. */
void fit_measure(const char *jobs, const char *name, const char *header, const char *const *rows,
                 int num_rows, double unit_s, const double *true_values);

/* A job that fits three constants to the measurements of matrix products in gemm.csv. */
#define FIT_PRODUCT_ROWS \
    "{ \"kind\": \"products\", \"data\": \"@/gemm.csv\", \"cluster\": \"dgx-a100-80g\" }"
extern const char fit_products_job[];
void fit_measure_products(double efficiency, double half_k, double kernel_s);

#endif
