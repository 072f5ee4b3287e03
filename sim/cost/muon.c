/* The matrices that the optimizer Muon updates, and the time of its Newton-Schulz steps. */
#include "sim/cost/muon.h"

#include "sim/cost/compute.h"
#include "sim/plan/state_share.h"

double newton_schulz_flops(double rows, double columns)
{
    double a = fmin(rows, columns), b = fmax(rows, columns);
    return NEWTON_SCHULZ_STEPS * (4 * a * a * b + 2 * a * a * a);
}

/* Each step has three products. With the short side a and the long side b, their outputs are a x a
 * (inner dimension b), a x a (inner a) and a x b (inner a). Each product reads its operands and
 * writes its output once; the last two also read the matrix to which they are added. */
double newton_schulz_s(const struct system *system, enum dtype dtype, double rows, double columns)
{
    double a = fmin(rows, columns), b = fmax(rows, columns), bytes = dtype_bytes(dtype);
    const struct gpu *gpu = &system->gpu;
    const struct profile *profile = &system->profile;
    double gram_s = gemm_s(gpu, profile, dtype, a, a, b, bytes * (2 * a * b + a * a));
    double square_s = gemm_s(gpu, profile, dtype, a, a, a, bytes * 4 * a * a);
    double update_s = gemm_s(gpu, profile, dtype, a, b, a, bytes * (a * a + 3 * a * b));
    return NEWTON_SCHULZ_STEPS * (gram_s + square_s + update_s) / system->stack.product_efficiency;
}

static void dealt_add(struct dealt *sum, struct dealt of, double times)
{
    sum->all += times * of.all;
    sum->largest = fmax(sum->largest, of.largest);
}

static void add(struct matrices *sum, const struct matrices *of, double times)
{
    if (times <= 0)
        return;
    sum->count += times * of->count;
    dealt_add(&sum->elements, of->elements, times);
    dealt_add(&sum->newton_schulz_s, of->newton_schulz_s, times);
}

void matrices_add(struct held_matrices *sum, const struct held_matrices *of, double times)
{
    add(&sum->shared, &of->shared, times);
    add(&sum->of_experts, &of->of_experts, times);
}

static struct matrices one_matrix(const struct system *system, enum dtype dtype, double rows,
                                  double columns)
{
    double elements = rows * columns;
    double seconds = newton_schulz_s(system, dtype, rows, columns);
    return (struct matrices){ 1, { elements, elements }, { seconds, seconds } };
}

static void add_product(struct held_matrices *held, const struct system *system, enum dtype dtype,
                        const struct op *op, const struct operands *operands)
{
    const struct op_weight *weight = &operands->weights[op->weights.at[0]];
    struct matrices *to = weight->is_of_experts ? &held->of_experts : &held->shared;
    bool is_apart = operands->values[op->out.at[0]].form == VALUE_HEADS;
    for (int i = 0; i < (is_apart ? MAX_MATRICES : 1); i++) {
        double rows = is_apart ? op->matrices[i] : op->n;
        if (rows <= 0)
            continue;
        struct matrices one = one_matrix(system, dtype, rows, op->k);
        add(to, &one, op->batch);
    }
}

struct held_matrices list_matrices(const struct system *system, const struct ops *forward,
                                   enum dtype dtype)
{
    struct held_matrices held = { 0 };
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        if (op->kind == OP_GEMM && !forward->operands->weights[op->weights.at[0]].is_frozen)
            add_product(&held, system, dtype, op, forward->operands);
    }
    return held;
}

double matrices_owned(const struct held_matrices *held, const struct plan *plan)
{
    return dealt_most(held->shared.elements, held->shared.count,
                      state_ranks(plan, STATE_OPTIMIZER)) +
           dealt_most(held->of_experts.elements, held->of_experts.count,
                      expert_state_ranks(plan, STATE_OPTIMIZER));
}

double matrices_newton_schulz_s(const struct held_matrices *held, const struct plan *plan)
{
    return dealt_most(held->shared.newton_schulz_s, held->shared.count,
                      state_ranks(plan, STATE_OPTIMIZER)) +
           dealt_most(held->of_experts.newton_schulz_s, held->of_experts.count,
                      expert_state_ranks(plan, STATE_OPTIMIZER));
}
