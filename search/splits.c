/* Lists the divisions of a model's layers over chunks (splits) that Megatron-Core's arguments, or
 * layout strings with nearly equal stages, can express. */
#include "search/splits.h"

#include "sim/schedule/placement.h"

#include <math.h>
#include <string.h>

/* head_layers is the FLOPs of head and loss divided by those of a layer. Head and loss run at a
 * lower rate, and take up to twice as long per FLOP. So if head_layers is at least this value, they
 * may take longer than a layer, and splits with a lighter last chunk are listed too. */
static const double heavy_head = 0.5;

struct list {
    const struct split_request *request;
    struct splits found;
    struct arena *arena;
};

/* Whether the list has a split with this vpp, these layers and this place of the MTP modules
 * (multi-token prediction). `layers` is NULL for an even split. */
static bool is_listed(const struct list *list, int vpp, const int *layers, enum mtp_place mtp_place)
{
    size_t bytes = (size_t)(list->request->pp * vpp) * sizeof *layers;
    for (int i = list->found.count - 1; i >= 0 && list->found.at[i].vpp == vpp; i--) {
        const int *known = list->found.at[i].layers;
        if (list->found.at[i].mtp_place != mtp_place)
            continue;
        if (known && layers ? memcmp(known, layers, bytes) == 0 : known == layers)
            return true;
    }
    return false;
}

static bool are_equal(const int *layers, int count)
{
    for (int i = 1; i < count; i++)
        if (layers[i] != layers[0])
            return false;
    return true;
}

static void add(struct list *list, int vpp, enum split_kind kind, const int *layers)
{
    if (layers && are_equal(layers, list->request->pp * vpp))
        layers = NULL;
    enum mtp_place place =
        kind == SPLIT_HEAD_ALONE || kind == SPLIT_LATER_ALONE ? MTP_APART : MTP_BESIDE;
    if (is_listed(list, vpp, layers, place))
        return;
    list->found.at[list->found.count++] = (struct split){ vpp, kind, layers, place };
}

/* The layers of the chunks: `most` in each, but `first` fewer in the first chunk and `last` fewer
 * in the last. */
static const int *ends_shorter(struct list *list, int chunks, int most, int first, int last)
{
    int *layers = ARENA_ARRAY(list->arena, int, (size_t)chunks);
    for (int i = 0; i < chunks; i++)
        layers[i] = most;
    layers[0] -= first;
    layers[chunks - 1] -= last;
    return layers;
}

/* Divides the layers over the first `used` chunks so that their numbers differ by at most one; the
 * last of these chunks counts as having `more` layers in addition to its own. Returns NULL if its
 * number, with these, would be less than `more`. Chunks with one layer less are chosen in this
 * order: the last used chunk, then the first chunk, which has the embedding, then the chunks of the
 * first stages, which hold the most microbatches. */
static const int *nearly_even(struct list *list, int chunks, int used, int more)
{
    int num_layers = list->request->model->layers + more;
    int most = (num_layers + used - 1) / used;
    int num_short = most * used - num_layers;
    int *layers = ARENA_ARRAY(list->arena, int, (size_t)chunks);
    for (int i = 0; i < used; i++) {
        int turn = i == used - 1 ? 0 : i + 1;
        layers[i] = most - (turn < num_short);
    }
    layers[used - 1] -= more;
    return layers[used - 1] < 0 ? NULL : layers;
}

/* Adds the splits whose last chunks hold only MTP modules or the head. */
static void add_without_blocks(struct list *list, int vpp)
{
    const struct split_request *request = list->request;
    int chunks = request->pp * vpp, num_layers = request->model->layers;
    int modules = request->model->mtp;
    if (modules == 0 || chunks - 1 > num_layers)
        return;
    add(list, vpp, SPLIT_ENDS_ALONE, nearly_even(list, chunks, chunks - 1, 0));
    if (request->pp ==
        2) /* a chunk before the head's would be on the first stage, with the embedding */
        return;
    const int *with_blocks = nearly_even(list, chunks, chunks - 1, modules);
    if (with_blocks)
        add(list, vpp, SPLIT_HEAD_ALONE, with_blocks);
    add(list, vpp, SPLIT_LATER_ALONE, nearly_even(list, chunks, chunks - 2, 0));
}

/* The layers of the chunks, if each middle stage has `middle` layers, the last stage `last`, and
 * the first stage the rest. NULL if the first stage has more layers than a middle one, or if the
 * first or the last has fewer than `least_end`. */
static const int *stages_of(struct list *list, int vpp, int middle, int last, int least_end)
{
    const struct split_request *request = list->request;
    int pp = request->pp, first = request->model->layers - (pp - 2) * middle - last;
    if (first > middle || first < least_end || last < least_end)
        return NULL;
    struct placement placement = { pp, vpp, NULL };
    int *layers = ARENA_ARRAY(list->arena, int, (size_t)(pp * vpp));
    for (int chunk = 0; chunk < pp * vpp; chunk++) {
        int stage = placement_stage(placement, chunk);
        layers[chunk] = (stage == 0 ? first : stage == pp - 1 ? last : middle) / vpp;
    }
    return layers;
}

/* The middle stages have `middle` layers each, the fewest with which the last stage and its head
 * are no slower: middle >= last + head_layers. Every stage's layers are a multiple of its chunks.
 * With a heavy head, a second split has one layer less in each chunk of the last stage and one more
 * in each of the first. */
static void add_light(struct list *list, int vpp)
{
    const struct split_request *request = list->request;
    int pp = request->pp, num_layers = request->model->layers;
    int least_end = vpp == 1 ? 0 : vpp;
    int middle = vpp * (int)ceil((num_layers + request->head_layers) / ((double)pp * vpp));
    int last;
    for (;; middle += vpp) {
        last = vpp * (int)floor((middle - request->head_layers) / vpp);
        last = last < least_end ? least_end : last;
        if (num_layers - (pp - 2) * middle - last <= middle)
            break;
    }
    if (last >= middle)
        return;
    const int *light = stages_of(list, vpp, middle, last, least_end);
    const int *lighter = stages_of(list, vpp, middle, last - vpp, least_end);
    if (light)
        add(list, vpp, SPLIT_LIGHT_LAST, light);
    if (lighter && request->head_layers >= heavy_head)
        add(list, vpp, SPLIT_LIGHTER_LAST, lighter);
}

/* Equal chunks, but one layer of the last chunk moves to the last chunk of a stage in the middle,
 * to make up for the head's time. A longer stage in the middle delays the other stages less than a
 * longer stage at an end. */
static const int *one_moved(struct list *list, int chunks)
{
    int *layers = ARENA_ARRAY(list->arena, int, (size_t)chunks);
    for (int i = 0; i < chunks; i++)
        layers[i] = list->request->model->layers / chunks;
    layers[chunks - 1 - list->request->pp / 2]++;
    layers[chunks - 1]--;
    return layers;
}

/* Whether pp stages divide the layers, with or without embedding and loss counted. */
static bool divides_somehow(const struct split_request *request)
{
    for (int counted = 0; counted <= 2; counted++)
        if ((request->model->layers + counted) % request->pp == 0)
            return true;
    return false;
}

static void list_of_vpp(struct list *list, int vpp)
{
    const struct split_request *request = list->request;
    int num_layers = request->model->layers;
    int chunks = request->pp * vpp;
    int before = list->found.count;
    if (num_layers % chunks == 0)
        add(list, vpp, SPLIT_EVEN, NULL);
    if (request->space == CHUNKS_EVEN || request->pp == 1)
        return;
    if ((num_layers + 1) % chunks == 0) {
        int most = (num_layers + 1) / chunks;
        add(list, vpp, SPLIT_EMBEDDING, ends_shorter(list, chunks, most, 1, 0));
        add(list, vpp, SPLIT_LOSS, ends_shorter(list, chunks, most, 0, 1));
    } else if ((num_layers + 2) % chunks == 0) {
        int most = (num_layers + 2) / chunks;
        add(list, vpp, SPLIT_BOTH, ends_shorter(list, chunks, most, 1, 1));
        if (most > 1 && request->head_layers >= heavy_head)
            add(list, vpp, SPLIT_LOSS_TWICE, ends_shorter(list, chunks, most, 0, 2));
    } else if (!divides_somehow(request) && chunks <= num_layers) {
        add(list, vpp, SPLIT_NEARLY, nearly_even(list, chunks, chunks, 0));
    }
    if (list->found.count > before)
        add_light(list, vpp);
    if (num_layers % chunks == 0 && request->head_layers >= heavy_head)
        add(list, vpp, SPLIT_ONE_MOVED, one_moved(list, chunks));
    if (vpp == 1 || list->found.count > before)
        add_without_blocks(list, vpp);
}

struct splits splits_of(const struct split_request *request, struct arena *arena)
{
    int most = request->pp > 1 ? (request->model->layers + 2) / request->pp : 1;
    int first = request->vpp > 0 ? request->vpp : 1;
    int last = request->vpp > 0 ? request->vpp : most > 1 ? most : 1;
    /* A vpp has at most these splits: an even one, two that count embedding or loss as layers, two
     * with a light last stage, one with a layer moved, and three with chunks that have no
     * layers. */
    enum { MOST_OF_VPP = 9 };
    struct list list = { .request = request, .arena = arena };
    list.found.at = ARENA_ARRAY(arena, struct split, (size_t)(MOST_OF_VPP * (last - first + 1)));
    for (int vpp = first; vpp <= last; vpp++)
        if (vpp == 1 || (long long)request->pp * vpp <= request->model->layers + 2)
            list_of_vpp(&list, vpp);
    if (list.found.count == 0)
        add(&list, first, SPLIT_EVEN, NULL);
    return list.found;
}
