#include "tests/calibration/fit_tables.h"

#include "base/file.h"
#include "base/length.h"
#include "tests/check_ok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char fit_folder[64];

void fit_folder_make(void)
{
    snprintf(fit_folder, sizeof fit_folder, "/tmp/simsearch-fit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fit_folder));
}

void fit_folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", fit_folder);
    ck_assert_int_eq(system(command), 0);
}

void fit_path(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", fit_folder, name);
}

void fit_write_text(const char *name, const char *text)
{
    char path[128];
    struct err err = { 0 };
    fit_path(name, path, sizeof path);
    check_ok(file_write(path, text, strlen(text), &err), &err);
}

char *fit_read_text(const char *path)
{
    struct err err = { 0 };
    char *text = file_read(path, FILE_MAX_BYTES, NULL, &err);
    check_ok(text != NULL, &err);
    return text;
}

void fit_load_table(const char *jobs, struct fit_table *table)
{
    struct text text = { 0 };
    char path[128];
    struct err err = { 0 };
    text_add(&text, "{ \"format\": 1, \"jobs\": [");
    for (const char *at = jobs; *at; at++) {
        if (*at == '@')
            text_add(&text, "%s", fit_folder);
        else
            text_add(&text, "%c", *at);
    }
    text_add(&text, "] }");
    fit_write_text("fit.json", text_get(&text));
    text_release(&text);
    fit_path("fit.json", path, sizeof path);
    check_ok(fit_table_load(path, table, &err), &err);
}

void fit_measure(const char *jobs, const char *name, const char *header, const char *const *rows,
                 int num_rows, double unit_s, const double *true_values)
{
    struct fit_table table;
    struct observations observations;
    struct text csv = { 0 };
    struct err err = { 0 };
    double predicted_s[64];
    ck_assert_int_le(num_rows, LENGTH(predicted_s));
    text_add(&csv, "%s\n", header);
    for (int i = 0; i < num_rows; i++)
        text_add(&csv, "%s,1\n", rows[i]);
    fit_write_text(name, text_get(&csv));
    text_release(&csv);

    fit_load_table(jobs, &table);
    const struct fit_job *job = &table.jobs[0];
    check_ok(observations_load(&table, job, &observations, &err), &err);
    ck_assert_int_eq(observations.count, num_rows);
    for (int j = 0; j < job->num_constants; j++)
        ck_assert_int_gt(
            observations_set(&observations, &job->constants[j].constant, true_values[j]), 0);
    observations_predict(&observations, 1, predicted_s);
    csv = (struct text){ 0 };
    text_add(&csv, "%s\n", header);
    for (int i = 0; i < num_rows; i++)
        text_add(&csv, "%s,%.15g\n", rows[i], predicted_s[i] / unit_s);
    fit_write_text(name, text_get(&csv));
    text_release(&csv);
    observations_release(&observations);
    fit_table_release(&table);
}

const char fit_products_job[] =
    "{ \"name\": \"products\", \"prior_weight\": 0.01, \"constants\": {"
    "  \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 },"
    "    \"gemm_half_k\": { \"prior\": 200 }, \"kernel\": { \"prior\": \"4 us\" } } },"
    "  \"rows\": [" FIT_PRODUCT_ROWS "] }";
static const char product_header[] = "dtype,m,n,k,time_us";
static const char *const products[] = {
    "bf16,64,256,64",      "bf16,128,256,128",    "bf16,512,512,128",    "bf16,1024,1024,256",
    "bf16,2048,2048,512",  "bf16,4096,4096,64",   "bf16,4096,4096,1024", "bf16,8192,8192,8192",
    "bf16,8192,4096,4096", "bf16,16384,4096,128", "bf16,2048,8192,2048", "bf16,4096,12288,256",
};

void fit_measure_products(double efficiency, double half_k, double kernel_s)
{
    const double values[] = { efficiency, half_k, kernel_s };
    fit_measure(fit_products_job, "gemm.csv", product_header, products, LENGTH(products), 1e-6,
                values);
}
