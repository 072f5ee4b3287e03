/* Blocks with experts: their products, messages and times. */
#include "sim/cost/piece.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;

static void tear_down(void)
{
    machine_release();
    arena_release(&arena);
}

/* --- one layer, measured ------------------------------------------------------------------------
 */

/* The ops between the norm and the residual, one after the other. */
static struct ops of_experts(struct ops ops)
{
    struct ops some = ops;
    some.at = ARENA_ARRAY(&arena, struct op, (size_t)ops.count);
    some.count = 0;
    for (int i = 0; i < ops.count; i++) {
        enum op_region region = ops.at[i].region;
        if (region != REGION_EXPERTS && region != REGION_EXPERT_ACTIVATION)
            continue;
        some.at[some.count] = ops.at[i];
        some.at[some.count].after = some.count - 1;
        some.count++;
    }
    return some;
}

/* Megatron-LM's functional tests moe_perf (golden values, tests/functional_tests): one layer with
 * experts on 8 H100, ep8, 4,096 tokens a rank, forced balance, plain gelu, no shared expert; the
 * all-to-all dispatcher in bf16. Milliseconds. */
static const struct {
    const char *name;
    int hidden, expert_ffn, experts, topk;
    double forward_ms, backward_ms;
} measured[] = {
    { "Mixtral", 4096, 14336, 8, 2, 4.327, 7.684 },
    { "DeepSeek", 7168, 2048, 32, 8, 7.119, 10.483 },
};

static struct piece_cost layer_cost(int i)
{
    struct model model = model_of("mixtral-8x7b");
    model.hidden = measured[i].hidden;
    model.expert_ffn = measured[i].expert_ffn;
    model.experts = measured[i].experts;
    model.topk = measured[i].topk;
    model.activation = ACTIVATION_GELU;
    model.seq = 4096;
    struct plan plan = plan_default();
    plan.ep = 8;
    plan.dp = 8;
    struct layer_options options = plan_layer_options(&plan, &machine);
    struct local_ops local =
        local_layer(rank_share_of(&plan), &model, model.seq, &options, false, &arena);
    local.forward = of_experts(local.forward);
    local.backward = of_experts(local.backward);
    return lists_cost(&machine, &plan, local, 0, &arena);
}

START_TEST(a_layer_takes_what_was_measured)
{
    machine_load("dgx-h100", 8);
    struct piece_cost cost = layer_cost(_i);
    printf("%s forward %.3f of %.3f, comm %.3f; backward %.3f of %.3f comm %.3f; saved %.0f\n",
           measured[_i].name, cost.forward.total_s * 1e3, measured[_i].forward_ms,
           cost.forward.comm_s * 1e3, cost.backward.total_s * 1e3, measured[_i].backward_ms,
           cost.backward.comm_s * 1e3, cost.saved_bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sim/cost: experts");
    TCase *tc = tcase_create("times");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, a_layer_takes_what_was_measured, 0, LENGTH(measured));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
