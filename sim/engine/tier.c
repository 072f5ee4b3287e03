/* Whether the stack (training software) and the GPU of a prediction were measured. */
#include "sim/engine/tier.h"

#include "models/blocks.h"
#include "sim/cost/runtime.h"

#include <stdio.h>

const char *const tier_names[NUM_TIERS] = { "seen", "new_stack", "new_gpu" };

/* Whether the stack is the executor's and was calibrated: it then has no error between sources. The
 * executor's shipped stack for GPUs has such an error, like a new stack. */
static bool is_calibrated(const struct stack *stack)
{
    return stack_runtime(stack)->is_a_core && stack->errors.source == 0;
}

enum tier system_tier(const struct system *system, const struct model *model)
{
    if (!system->profile.measured)
        return TIER_NEW_GPU;
    if (model->experts > 0 || model_unmeasured(model))
        return TIER_NEW_STACK;
    if (system->stack.num_fitted > 0 || is_calibrated(&system->stack))
        return TIER_SEEN;
    return TIER_NEW_STACK;
}

void tier_sentence(const struct system *system, const struct model *model, char *text, size_t size)
{
    bool is_fitted = system->stack.num_fitted > 0;
    const char *unmeasured = model_unmeasured(model);
    const char *lacks = !is_fitted           ? NULL
                        : unmeasured         ? unmeasured
                        : model->experts > 0 ? "experts"
                                             : NULL;
    switch (system_tier(system, model)) {
    case TIER_SEEN:
        snprintf(text, size, "runs of this stack and of this GPU have been measured");
        break;
    case TIER_NEW_STACK:
        if (lacks)
            snprintf(text, size, "constants of %s were fitted only on runs of models without %s",
                     system->stack.name, lacks);
        else
            snprintf(text, size,
                     "no run of %s has been measured: its constants come from other stacks",
                     system->stack.name);
        break;
    case TIER_NEW_GPU:
        snprintf(text, size,
                 "no run on %s has been measured: its constants come from datasheets or other GPUs",
                 system->profile.name);
        break;
    case NUM_TIERS:
        break;
    }
}
