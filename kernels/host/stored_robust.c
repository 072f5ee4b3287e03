/* Kernels of Byzantine-robust aggregation, on gradients in fp32, for every storage type. */
#include "kernels/host/stored.h"

void stored_robust_trim(const struct host_kernels *k, const struct robust_trim_args *a)
{
    (void)k;
    robust_trimmed(a->n, a->count, a->x, a->trim, a->scale, a->out);
}

void stored_robust_measure(const struct host_kernels *k, const struct robust_measure_args *a)
{
    (void)k;
    robust_distances(a->n, a->count, a->x, a->squares);
}

void stored_robust_weigh(const struct host_kernels *k, const struct robust_weigh_args *a)
{
    (void)k;
    if (a->picks_one)
        robust_krum(a->count, a->hostile, a->squares, a->weights);
    else
        robust_geometric_median(a->count, a->squares, a->weights);
}

void stored_robust_mix(const struct host_kernels *k, const struct robust_mix_args *a)
{
    (void)k;
    robust_weighted(a->n, a->count, a->x, a->weights, a->scale, a->out);
}

void stored_falsify(const struct host_kernels *k, const struct falsify_args *a)
{
    (void)k;
    falsify(a->n, a->falsity, a->strength, &a->draw, a->x);
}
