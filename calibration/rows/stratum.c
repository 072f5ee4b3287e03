#include "calibration/rows/stratum.h"

#include "base/length.h"

#include <string.h>

static int compare_numbers(double x, double y)
{
    return (x > y) - (x < y);
}

static int compare_strata(const struct run_row *x, const struct run_row *y)
{
    const int differences[] = {
        strcmp(x->source_key, y->source_key),      strcmp(x->gpu, y->gpu),
        strcmp(x->software, y->software),          strcmp(x->precision, y->precision),
        compare_numbers(x->n_gpus, y->n_gpus),     compare_numbers(x->layers, y->layers),
        compare_numbers(x->hidden, y->hidden),     compare_numbers(x->heads, y->heads),
        compare_numbers(x->kv_heads, y->kv_heads), compare_numbers(x->ffn_hidden, y->ffn_hidden),
        compare_numbers(x->vocab, y->vocab),       compare_numbers(x->experts, y->experts),
        compare_numbers(x->topk, y->topk),         compare_numbers(x->seq, y->seq),
        compare_numbers(x->gbs_seqs, y->gbs_seqs),
    };
    size_t i = 0;
    while (differences[i] == 0 && i + 1 < LENGTH(differences))
        i++;
    return differences[i];
}

int stratum_compare_cases(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    int by_stratum = compare_strata(x->row, y->row);
    return by_stratum ? by_stratum : (x > y) - (x < y);
}

int stratum_end(const struct run_case *const *of, int n, int first)
{
    int end = first + 1;
    while (end < n && compare_strata(of[first]->row, of[end]->row) == 0)
        end++;
    return end;
}
