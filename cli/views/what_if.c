/* Shows predictions of the chosen plan on slightly changed systems. */
#include "cli/views/what_if.h"

#include "base/length.h"
#include "base/units.h"
#include "cli/print/scale.h"
#include "sim/engine/slower.h"

#include <math.h>
#include <stdio.h>

/* One change of the system. It is applied to copies, which the caller releases with
 * system_slower_release, and its name is added to a text. False: the change has no effect. */
struct what_if {
    bool (*change)(struct system *system, struct model *model, struct text *name);
};

static bool double_network(struct system *system, struct model *model, struct text *name)
{
    (void)model;
    struct cluster *cluster = &system->cluster;
    char speed[32];
    if (cluster->num_levels < 2 || system->num_gpus <= cluster_node_size(cluster))
        return false;
    for (int i = 1; i < cluster->num_levels; i++) {
        cluster->levels[i].bytes_per_s *= 2;
        cluster->levels[i].channel_bytes_per_s *= 2;
    }
    units_show(cluster->levels[1].bytes_per_s, QUANTITY_BYTES_PER_S, speed, sizeof speed);
    text_add(name, "network of %s", speed);
    return true;
}

static bool double_batch(struct system *system, struct model *model, struct text *name)
{
    (void)system;
    model->batch *= 2;
    text_add(name, "batch %.0f", model->batch);
    return true;
}

/* Slows one GPU down; all other GPUs wait for it. */
static bool slow_one_gpu(struct system *system, struct model *model, struct text *name)
{
    (void)model;
    struct system faster = *system;
    system_slower(&faster, 0.95, system);
    system_slower_release(&faster);
    text_add(name, "one GPU 5 %% slower");
    return true;
}

static const struct what_if what_ifs[] = { { double_network }, { double_batch }, { slow_one_gpu } };

/* Adds the effect on tokens/s, because step times are not comparable if the batch changes. */
static void add_effect(const struct terminal *terminal, const struct prediction *before,
                       const struct prediction *after, struct text *out)
{
    double gain = after->tokens_per_s / before->tokens_per_s - 1;
    struct time_scale scale = time_scale_of(after->step_s);
    text_add(out, "%.*f %s (tokens/s %s%.1f %%)", scale.decimals, after->step_s * scale.per_s,
             scale.unit, gain < 0 ? terminal_minus(terminal) : "+", 100 * fabs(gain));
}

void show_what_if(const struct terminal *terminal, const struct setup *setup,
                  const struct scored_plan *plan)
{
    struct text line = { 0 };
    for (size_t i = 0; i < LENGTH(what_ifs); i++) {
        struct system system;
        struct model model = setup->model;
        struct text name = { 0 };
        system_slower(&setup->system, 1, &system);
        if (what_ifs[i].change(&system, &model, &name)) {
            struct evaluator *evaluator = evaluator_new(&system, &model);
            struct prediction after = evaluate(evaluator, &plan->plan);
            text_add(&line, "%s", line.length > 0 ? "\n            " : "");
            text_add_padded(&line, text_get(&name), 22);
            add_effect(terminal, &plan->prediction, &after, &line);
            evaluator_free(evaluator);
        }
        system_slower_release(&system);
        text_release(&name);
    }
    printf("\n  what if   %s\n", text_get(&line));
    text_release(&line);
}
