/* Checks that degrees suit GPUs, batch and layers: pipeline stages, virtual stages, microbatches.
 */
#include "interchange/megatron_checks.h"

#include "base/length.h"
#include "sim/plan/stage_text.h"

/* Number of data ranks; 0 if the degrees do not divide the GPUs. */
static int data_ranks(const struct rule_case *of)
{
    const struct megatron_args *a = of->args;
    long long ways = (long long)a->tp * a->pp * a->cp;
    if (ways < 1 || of->job->num_gpus % ways != 0)
        return 0;
    return (int)(of->job->num_gpus / ways);
}

/* Sequences that all data ranks process in one microbatch; 0 if there is no data rank or the
 * microbatch is not set. */
static long long sequences_at_once(const struct rule_case *of)
{
    const struct megatron_args *a = of->args;
    return a->micro_batch < 1 ? 0 : (long long)a->micro_batch * data_ranks(of);
}

bool megatron_degrees_divide_world(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    const struct {
        const char *flag;
        int value;
    } degrees[] = { { "--tensor-model-parallel-size", a->tp },
                    { "--pipeline-model-parallel-size", a->pp },
                    { "--context-parallel-size", a->cp },
                    { "--expert-model-parallel-size", a->ep },
                    { "--micro-batch-size", a->micro_batch } };
    for (int i = 0; i < LENGTH(degrees); i++)
        if (degrees[i].value < 1)
            return BROKEN(degrees[i].flag, "is %d, but must be 1 or more", degrees[i].value);
    return of->job->num_gpus == 0 || data_ranks(of) > 0 ||
           BROKEN("--tensor-model-parallel-size", "tp %d x pp %d x cp %d does not divide %d GPUs",
                  a->tp, a->pp, a->cp, of->job->num_gpus);
}

bool megatron_batch_divides(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    long long at_once = sequences_at_once(of);
    return at_once == 0 || a->global_batch % at_once == 0 ||
           BROKEN("--global-batch-size", "%d is no multiple of micro-batch %d x dp %d",
                  a->global_batch, a->micro_batch, data_ranks(of));
}

bool megatron_stages_are_given_once(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return (a->lpvs > 0) + (a->nvs > 0) + (a->layout != NULL) <= 1 ||
           BROKEN("--num-layers-per-virtual-pipeline-stage",
                  "is given together with another of --num-virtual-stages-per-pipeline-rank and "
                  "--pipeline-model-parallel-layout");
}

static int counted_layers(const struct megatron_args *a)
{
    return a->layers + a->account_embedding + a->account_loss;
}

bool megatron_layers_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    bool is_even = !a->layout && a->nvs == 0 && a->first_layers == 0 && a->last_layers == 0;
    return !is_even || a->layers == 0 || counted_layers(a) % a->pp == 0 ||
           BROKEN("--pipeline-model-parallel-size", "%d layers do not divide over %d stages",
                  counted_layers(a), a->pp);
}

bool megatron_virtual_layers_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->lpvs == 0)
        return true;
    if (a->first_layers > 0 || a->last_layers > 0)
        return BROKEN("--num-layers-per-virtual-pipeline-stage",
                      "cannot be combined with a number of layers for the first or last stage; "
                      "use --num-virtual-stages-per-pipeline-rank");
    int layers = counted_layers(a) / a->pp;
    return a->layers == 0 || (counted_layers(a) % a->pp == 0 && layers % a->lpvs == 0) ||
           BROKEN("--num-layers-per-virtual-pipeline-stage",
                  "%d does not divide the %d layers of a stage", a->lpvs, layers);
}

int megatron_vpp_of(const struct rule_case *of)
{
    const struct megatron_args *a = of->args;
    return a->layout ? of->job->plan.vpp : megatron_vpp(a);
}

bool megatron_interleaving_has_stages(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int vpp = megatron_vpp_of(of);
    if (vpp == 1)
        return true;
    if (a->pp == 1)
        return BROKEN("--pipeline-model-parallel-size",
                      "is 1, but %d virtual stages need 2 or more", vpp);
    return a->overlap_p2p || a->pp > 2 ||
           BROKEN("--no-overlap-p2p-communication",
                  "needs 3 or more pipeline stages if there are virtual stages, not %d", a->pp);
}

bool megatron_ends_have_layers(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int vpp = megatron_vpp_of(of);
    if (a->first_layers == 0 && a->last_layers == 0)
        return true;
    int middle = a->layers - a->first_layers - a->last_layers;
    int stages = a->pp - (a->first_layers > 0) - (a->last_layers > 0);
    const char *where = a->first_layers > 0 ? "--decoder-first-pipeline-num-layers"
                                            : "--decoder-last-pipeline-num-layers";
    if (a->account_embedding || a->account_loss)
        return BROKEN(where,
                      "cannot be combined with --account-for-embedding or --account-for-loss");
    if (a->first_layers < 0 || a->last_layers < 0 || a->first_layers % vpp != 0 ||
        a->last_layers % vpp != 0)
        return BROKEN(where, "%d and %d layers do not divide over %d virtual stages",
                      a->first_layers, a->last_layers, vpp);
    if ((middle > 0) != (stages > 0) || middle < 0 || stages < 0)
        return BROKEN(where, "leaves %d layers for the %d other stages", middle, stages);
    return stages == 0 || (middle % stages == 0 && middle / stages % vpp == 0) ||
           BROKEN(where, "%d layers do not divide over %d stages of %d virtual stages each", middle,
                  stages, vpp);
}

bool megatron_layout_holds_layers(const struct rule_case *of, struct err *err)
{
    static const char where[] = "--pipeline-model-parallel-layout";
    const struct megatron_args *a = of->args;
    struct stage_text stages;
    struct arena arena = { 0 };
    struct model model = of->job->model;
    if (!a->layout)
        return true;
    model.layers = a->layers > 0 ? a->layers : model.layers;
    bool is_alone =
        a->first_layers == 0 && a->last_layers == 0 && !a->account_embedding && !a->account_loss;
    bool ok = (is_alone || BROKEN(where, "cannot be combined with other ways to divide layers")) &&
              stage_text_read(a->layout, &arena, &stages, err) &&
              stage_text_check(&stages, &model, a->pp, a->mtp, err);
    if (!ok && !*err->where)
        err_prefix(err, where);
    if (!ok)
        err->code = ERR_INFEASIBLE;
    arena_release(&arena);
    return ok;
}

bool megatron_virtual_stages_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    bool is_even = a->first_layers == 0 && a->last_layers == 0;
    if (a->nvs < 2 || !is_even || a->layers == 0)
        return true;
    int layers = counted_layers(a);
    return (layers % a->pp == 0 && layers / a->pp % a->nvs == 0) ||
           BROKEN("--num-virtual-stages-per-pipeline-rank",
                  "%d does not divide the %d layers of each of %d stages; Megatron-LM reports this "
                  "when it builds the model",
                  a->nvs, layers / a->pp, a->pp);
}

bool megatron_microbatches_fill_groups(const struct rule_case *of, struct err *err)
{
    static const char where[] = "--microbatch-group-size-per-virtual-pipeline-stage";
    const struct megatron_args *a = of->args;
    long long at_once = sequences_at_once(of);
    int group = a->microbatch_group > 0 ? a->microbatch_group : a->pp;
    if (megatron_vpp_of(of) == 1 || at_once == 0 || a->global_batch == 0)
        return true;
    int microbatches = (int)(a->global_batch / at_once);
    if (group < a->pp)
        return BROKEN(where, "%d is less than the %d stages", group, a->pp);
    if (microbatches < group)
        return BROKEN(where, "%d microbatches are fewer than a group of %d", microbatches, group);
    int rest = microbatches % group;
    return rest == 0 || rest >= a->pp ||
           BROKEN(where,
                  "%d microbatches leave a rest of %d after whole groups of %d; the rest is "
                  "smaller than the %d stages",
                  microbatches, rest, group, a->pp);
}

bool megatron_ramp_up_divides(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    long long at_once = sequences_at_once(of);
    if (a->ramp_up.count == 0 || at_once == 0)
        return true;
    if (a->ramp_up.count != 3)
        return BROKEN("--rampup-batch-size", "expected a first batch, an increment and samples");
    for (int i = 0; i < 2; i++)
        if (a->ramp_up.at[i] % at_once != 0)
            return BROKEN("--rampup-batch-size", "%d is no multiple of micro-batch %d x dp %d",
                          a->ramp_up.at[i], a->micro_batch, data_ranks(of));
    return true;
}
