/* When no plan is feasible: shows the changes of the request (relaxations) that would admit one. */
#include "cli/views/relax_view.h"

#include "cli/print/scale.h"
#include "cli/views/answer.h"
#include "cli/views/show.h"

#include <math.h>
#include <stdio.h>

void relax_find(const struct search_request *request, const struct search_result *result,
                struct relaxations *out)
{
    *out = (struct relaxations){ 0 };
    if (result->num_top == 0 && result->proved_optimal)
        search_relax(request, result, out);
}

/* Adds a relaxation in words: "batch 1500", "864 GPUs", "without tp3". */
static void add_change(const struct relaxation *relaxation, struct text *out)
{
    switch (relaxation->what) {
    case RELAXED_GPUS:
        text_add(out, "%.0f GPUs", relaxation->to);
        break;
    case RELAXED_BATCH:
        text_add(out, "batch %.0f", relaxation->to);
        break;
    case RELAXED_MEMORY:
        text_add(out, "%.2f GiB of memory", ceil(100 * relaxation->to / GIB) / 100);
        break;
    case RELAXED_FIX:
        text_add(out, "without --fix %s", relaxation->word);
        break;
    case RELAXED_FORBID:
        text_add(out, "without --forbid %s", relaxation->word);
        break;
    }
}

void add_relaxations_words(const struct relaxations *relaxations, struct text *out)
{
    enum { MOST_WORDS = 4 };
    for (int i = 0; i < relaxations->count && i < MOST_WORDS; i++) {
        text_add(out, "%s", i > 0 ? ", " : "; each of these changes would give a plan: ");
        add_change(&relaxations->at[i], out);
    }
}

void show_relaxations(const struct relaxations *relaxations)
{
    struct terminal terminal = terminal_of_stdout();
    if (relaxations->count > 0)
        printf("\n  feasible with one change\n");
    for (int i = 0; i < relaxations->count; i++) {
        const struct scored_plan *best = &relaxations->at[i].best;
        struct time_scale scale = time_scale_of(best->prediction.step_s);
        struct text change = { 0 }, line = { 0 };
        add_change(&relaxations->at[i], &change);
        text_add_padded(&line, text_get(&change), 22);
        add_plan_words(&terminal, &best->plan, best->prediction.num_microbatches, &line);
        printf("    %s; %.*f %s a step\n", text_get(&line), scale.decimals,
               best->prediction.step_s * scale.per_s, scale.unit);
        text_release(&change);
        text_release(&line);
    }
}

static json_t *relaxation_json(const struct setup *setup, const struct relaxation *relaxation)
{
    struct setup changed = *setup; /* borrows everything from the setup */
    json_t *object = json_object();
    json_object_set_new(object, "change", json_string(relaxed_names[relaxation->what]));
    switch (relaxation->what) {
    case RELAXED_GPUS:
        changed.system.num_gpus = (int)relaxation->to;
        break;
    case RELAXED_BATCH:
        changed.model.batch = relaxation->to;
        break;
    case RELAXED_MEMORY:
    case RELAXED_FIX:
    case RELAXED_FORBID:
        break;
    }
    if (relaxation->to > 0) {
        json_object_set_new(object, "from", number_json(relaxation->from));
        json_object_set_new(object, "to", number_json(relaxation->to));
    } else {
        json_object_set_new(object, "without", json_string(relaxation->word));
        json_object_set_new(object, "left", json_string(relaxation->words));
    }
    const struct scored_plan *best = &relaxation->best;
    json_object_set_new(object, "best",
                        prediction_json(&changed, &best->plan, &best->prediction, false));
    return object;
}

json_t *relaxations_json(const struct setup *setup, const struct relaxations *relaxations)
{
    json_t *list = json_array();
    for (int i = 0; i < relaxations->count; i++)
        json_array_append_new(list, relaxation_json(setup, &relaxations->at[i]));
    return list;
}
