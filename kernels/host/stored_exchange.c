/* Kernels of gradient exchanges that compress or average only some ranks. Gradients and weights are
 * in fp32 for every storage type. */
#include "kernels/host/combine.h"
#include "kernels/host/low_rank.h"
#include "kernels/host/stored.h"
#include "kernels/host/top_k.h"

void stored_combine(const struct host_kernels *k, const struct combine_args *a)
{
    (void)k;
    combine(a->n, a->a, a->x, a->b, a->y, a->out);
}

void stored_quantise(const struct host_kernels *k, const struct quantise_args *a)
{
    (void)k;
    quantise(&a->quantiser, &a->draw, a->first, a->n, a->x, a->norms, a->codes);
}

void stored_dequantise_add(const struct host_kernels *k, const struct dequantise_args *a)
{
    (void)k;
    dequantise_add(&a->quantiser, a->n, a->norms, a->codes, a->sum);
}

void stored_top_k_take(const struct host_kernels *k, const struct top_k_args *a)
{
    (void)k;
    top_k_take(a->n, a->x, a->k, a->indices, a->values);
}

void stored_top_k_add(const struct host_kernels *k, const struct top_k_args *a)
{
    (void)k;
    top_k_add(a->k, a->indices, a->values, a->n, a->x);
}

void stored_orthogonalise(const struct host_kernels *k, const struct orthogonalise_args *a)
{
    (void)k;
    orthogonalise(a->rows, a->rank, a->columns);
}
