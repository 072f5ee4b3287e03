#include "cli/views/remedy_view.h"

#include "cli/input/search_request.h"
#include "cli/print/scale.h"
#include "cli/views/answer.h"
#include "search/questions/remedy.h"
#include "search/words.h"
#include "sim/engine/memory_interval.h"

#include <math.h>
#include <string.h>

double remedy_usual_bytes(const struct setup *setup)
{
    return fmin(setup->memory_bytes, memory_planned_bytes(&setup->system, default_oom_risk));
}

static bool has_word(const char *words, const char *word, struct arena *arena)
{
    for (const char *found; (found = words_next(&words, arena));)
        if (strcmp(found, word) == 0)
            return true;
    return false;
}

/* Adds the settings of layout `to` that layout `from` lacks, such as "cp2 dp64". */
static void add_new_words(const struct plan *from, const struct plan *to, struct arena *arena,
                          struct text *out)
{
    struct text before = { 0 }, after = { 0 };
    const char *gap = "";
    plan_write(from, &before);
    plan_write(to, &after);
    const char *rest = text_get(&after);
    for (const char *word; (word = words_next(&rest, arena));)
        if (!has_word(text_get(&before), word, arena)) {
            text_add(out, "%s%s", gap, word);
            gap = " ";
        }
    text_release(&before);
    text_release(&after);
}

void add_remedies_words(const struct setup *setup, const struct plan *plan, double most_bytes,
                        const char *dot, struct text *out)
{
    struct arena arena = { 0 };
    struct scored_plan found[MOST_REMEDIES];
    int count = search_remedies(&setup->system, &setup->model, plan, most_bytes, &arena, found);
    for (int i = 0; i < count; i++) {
        const struct prediction *p = &found[i].prediction;
        struct time_scale scale = time_scale_of(p->step_s);
        text_add(out, "%s", i > 0 ? dot : "");
        add_new_words(plan, &found[i].plan, &arena, out);
        text_add(out, ": %.*f %s, %.1f GiB", scale.decimals, p->step_s * scale.per_s, scale.unit,
                 p->peak_memory_bytes / GIB);
    }
    arena_release(&arena);
}

void add_remedies_json(json_t *object, const struct setup *setup, const struct plan *plan,
                       double most_bytes)
{
    struct arena arena = { 0 };
    struct scored_plan found[MOST_REMEDIES];
    int count = search_remedies(&setup->system, &setup->model, plan, most_bytes, &arena, found);
    json_t *array = json_array();
    for (int i = 0; i < count; i++) {
        const struct prediction *p = &found[i].prediction;
        struct text words = { 0 }, layout = { 0 };
        add_new_words(plan, &found[i].plan, &arena, &words);
        plan_write(&found[i].plan, &layout);
        json_array_append_new(array, json_pack("{s:s, s:s, s:f, s:f, s:f}", "change",
                                               text_get(&words), "layout", text_get(&layout),
                                               "step_s", p->step_s, "peak_memory_bytes",
                                               p->peak_memory_bytes, "p_oom", p->p_oom));
        text_release(&words);
        text_release(&layout);
    }
    json_object_set_new(object, "remedies", array);
    arena_release(&arena);
}
