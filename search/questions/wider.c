/* Searches plans that one further option would add to the space, with the best plan's degrees
 * fixed. */
#include "search/questions/wider.h"

#include "base/length.h"
#include "base/statistics.h"
#include "base/text.h"
#include "search/probe.h"
#include "search/search.h"
#include "search/words.h"
#include "sim/plan/axis.h"

#include <stdlib.h>

static bool is_fixed(const struct search_request *request, const char *token)
{
    struct arena arena = { 0 };
    bool is = request->fix && words_have(words_tokens(request->fix, &arena), token);
    arena_release(&arena);
    return is;
}

static bool may_be_uneven(const struct search_request *request, const struct plan *best)
{
    return !request->uneven && !is_fixed(request, "stages") && !*best->schedule;
}

/* Whether stages may recompute different numbers of layers; this helps only if the plan recomputes
 * whole layers. */
static bool may_mix(const struct search_request *request, const struct plan *best)
{
    return !request->recompute_mixes && !is_fixed(request, "recompute") && best->pp > 1 &&
           best->vpp == 1 && !*best->schedule && best->recompute == RECOMPUTE_FULL;
}

static bool may_move(const struct search_request *request, const struct plan *best)
{
    (void)best;
    return !request->placement && !is_fixed(request, "order");
}

static void add_uneven(struct search_request *request)
{
    request->uneven = true;
}

static void add_mixes(struct search_request *request)
{
    request->recompute_mixes = true;
}

static void add_placement(struct search_request *request)
{
    request->placement = true;
}

/* Writes the words that are fixed to the best plan's values, except those that the option varies:
 * with the option that gives stages any number of layers, the number of chunks is not fixed. */
static void add_fixed(const struct search_request *request, const struct plan *best, bool mixes,
                      bool deals, struct text *fix)
{
    for (int i = 0; i < num_axes; i++)
        if (!axes[i]->is_folded)
            text_add(fix, "%s%d ", axes[i]->name, best->degree[i]);
    text_add(fix, "mb%d sp%d zero%d", best->microbatch, best->sp, best->zero);
    if (!deals || is_fixed(request, "vpp"))
        text_add(fix, " vpp%d", best->vpp);
    if (best->recompute == RECOMPUTE_SELECTIVE) {
        text_add(fix, " recompute=");
        plan_write_selective(best, fix);
    } else if (!mixes && best->recompute <= RECOMPUTE_FULL) {
        text_add(fix, " recompute=%s", recompute_names[best->recompute]);
    }
}

static int by_gain(const void *a, const void *b)
{
    return numbers_order(((const struct wider *)b)->gain, ((const struct wider *)a)->gain);
}

int search_wider(const struct search_request *request, const struct scored_plan *best,
                 struct arena *arena, struct wider out[MOST_WIDER])
{
    static const struct {
        const char *option;
        bool (*may_gain)(const struct search_request *request, const struct plan *best);
        void (*add)(struct search_request *request);
        bool mixes, deals;
    } rows[] = {
        { "--uneven", may_be_uneven, add_uneven, false, true },
        { "--recompute-mixes", may_mix, add_mixes, true, false },
        { "--placement", may_move, add_placement, false, false },
    };
    int count = 0;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        if (!rows[i].may_gain(request, &best->plan))
            continue;
        struct text fix = { 0 };
        struct search_request wider = search_including(request, &best->plan);
        add_fixed(request, &best->plan, rows[i].mixes, rows[i].deals, &fix);
        wider.fix = text_get(&fix);
        wider.limit_s = best->prediction.step_s * (1 - wider_least_gain);
        rows[i].add(&wider);
        struct probe probe = probe_best(&wider, arena);
        text_release(&fix);
        double gain = probe.fits ? 1 - probe.best.prediction.step_s / best->prediction.step_s : 0;
        if (gain >= wider_least_gain)
            out[count++] = (struct wider){ rows[i].option, gain, probe.best };
    }
    qsort(out, (size_t)count, sizeof *out, by_gain);
    return count;
}
