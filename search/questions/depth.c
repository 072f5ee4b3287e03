/* Searches for the deepest model that fits, one number of stages after another. */
#include "search/questions/depth.h"

#include "search/evaluators.h"
#include "search/method.h"

#include <string.h>

/* The search for the deepest model that fits with a given number of pipeline stages. */
struct dive {
    const struct search *search;
    int num_stages;
    int chunks_per_stage; /* 0: any */
    int layers_at_once;   /* step by which the number of layers may grow so that they stay divisible
                           */
    int most_at_once;     /* largest number of layers of a model, in multiples of layers_at_once */
    struct depth *depth;
    struct err *err; /* set when the kinds of blocks cannot be arranged in so many layers */
};

static bool fits_layers(const struct dive *dive, int layers)
{
    struct arena arena = { 0 };
    struct model model = *dive->search->space->model;
    struct space space = *dive->search->space;
    if (!model_set_layers(&model, layers, dive->err))
        return false;
    space.model = &model;
    space.pp.at = (int[]){ dive->num_stages };
    space.pp.count = 1;
    space.vpp = dive->chunks_per_stage;
    space_list_splits(&space, &arena);
    struct walk walk = { .request = dive->search->request,
                         .system = dive->search->system,
                         .space = &space,
                         .start_s = dive->search->start_s,
                         .only_whether_any_fits = true };
    struct tally tally = walk_run(&walk, &arena);
    arena_release(&arena);
    bool any = tally.evaluated > 0;
    dive->depth->timed_out |= tally.timed_out && !any;
    dive->depth->was_interrupted |= tally.was_interrupted;
    return any;
}

static bool fits(const struct dive *dive, int times)
{
    return fits_layers(dive, times * dive->layers_at_once);
}

static bool is_over(const struct dive *dive)
{
    return dive->depth->timed_out || dive->depth->was_interrupted || dive->err->code != ERR_NONE;
}

/* The largest power of two for which a model of that many times layers_at_once layers fits; 0:
 * none. A small number of layers may break a rule that demands more, so a failure does not end the
 * search at once. */
static int last_doubling(const struct dive *dive)
{
    int last = 0;
    for (int times = 1; times <= dive->most_at_once && !is_over(dive); times *= 2) {
        if (fits(dive, times))
            last = times;
        else if (last > 0)
            break;
    }
    return last;
}

/* The deepest model that fits, with less than one further layer per chunk above `layers` layers, if
 * chunks may be unequal. Each depth is tried, as some depths cannot be split into chunks. */
static int uneven_above(const struct dive *dive, int layers)
{
    bool is_even = dive->search->space->chunks == CHUNKS_EVEN;
    int above = is_even ? layers : layers + dive->layers_at_once - 1;
    while (above > layers && !is_over(dive) && !fits_layers(dive, above))
        above--;
    return above;
}

static void deepen(const struct dive *dive)
{
    int low = last_doubling(dive);
    int high = 2 * low <= dive->most_at_once ? 2 * low : dive->most_at_once + 1;
    while (low > 0 && high - low > 1 && !is_over(dive)) {
        int middle = low + (high - low) / 2;
        if (fits(dive, middle))
            low = middle;
        else
            high = middle;
    }
    int layers = low * dive->layers_at_once;
    if (low > 0)
        layers = uneven_above(dive, layers);
    if (layers > dive->depth->most)
        dive->depth->most = layers;
}

/* The number of chunks per stage to try; 0: any. One chunk is enough, because more chunks hold more
 * activations and must obey more rules. This does not hold if the user fixes the schedule or
 * forbids layouts. */
static int chunks_per_stage(const struct space *space)
{
    bool is_usual = space->base.schedule[0] == '\0' && space->forbidden.count == 0;
    return space->vpp > 0 ? space->vpp : is_usual;
}

/* The step of the number of layers. It is 1 with one chunk per stage unless chunks must be even. */
static int layers_at_once(const struct space *space, const struct dive *dive)
{
    if (dive->chunks_per_stage == 1 && space->chunks != CHUNKS_EVEN)
        return 1;
    return dive->num_stages * (dive->chunks_per_stage > 0 ? dive->chunks_per_stage : 1);
}

bool search_depth(const struct search_request *asked, struct depth *out, struct err *err)
{
    const struct field *field = fields_find(model_fields, num_model_fields, "layers");
    struct arena arena = { 0 };
    struct prepared prepared;
    struct search_request request = *asked;
    *out = (struct depth){ 0 };
    request.progress = NULL;
    struct evaluators evaluators = { 0 };
    bool ok = search_prepare(&request, &arena, &prepared, err);
    if (!request.evaluators)
        prepared.request.evaluators = &evaluators;
    const struct space *space = &prepared.space;
    for (int i = 0; ok && i < space->pp.count; i++) {
        int num_stages = space->pp.at[i];
        struct dive dive = { .search = &prepared.search,
                             .num_stages = num_stages,
                             .chunks_per_stage = chunks_per_stage(space),
                             .depth = out,
                             .err = err };
        dive.layers_at_once = layers_at_once(space, &dive);
        dive.most_at_once = (int)field->max / dive.layers_at_once;
        deepen(&dive);
        ok = err->code == ERR_NONE;
    }
    evaluators_release(&evaluators);
    arena_release(&arena);
    return ok;
}
