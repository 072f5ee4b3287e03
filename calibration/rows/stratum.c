#include "calibration/rows/stratum.h"

#include "base/length.h"
#include "base/statistics.h"

#include <string.h>

static int compare_strata(const struct run_row *x, const struct run_row *y)
{
    const int differences[] = {
        strcmp(x->source_key, y->source_key),    strcmp(x->gpu, y->gpu),
        strcmp(x->software, y->software),        strcmp(x->precision, y->precision),
        numbers_order(x->n_gpus, y->n_gpus),     numbers_order(x->layers, y->layers),
        numbers_order(x->hidden, y->hidden),     numbers_order(x->heads, y->heads),
        numbers_order(x->kv_heads, y->kv_heads), numbers_order(x->ffn_hidden, y->ffn_hidden),
        numbers_order(x->vocab, y->vocab),       numbers_order(x->experts, y->experts),
        numbers_order(x->topk, y->topk),         numbers_order(x->seq, y->seq),
        numbers_order(x->gbs_seqs, y->gbs_seqs),
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
