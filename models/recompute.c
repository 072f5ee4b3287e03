/* Which ops selective recompute replays, that is runs again in the backward, and how much memory
 * this frees. */
#include "models/recompute.h"

#include <math.h>
#include <string.h>

const char *const replay_names[NUM_REPLAYS + 1] = { "core_attn",   "mlp",     "layernorm",
                                                    "moe",         "moe_act", "shared_experts",
                                                    "mla_up_proj", "op",      NULL };

/* --- parts ----------------------------------------------------------------------------------- */

#define IN(region) (1u << (region))

/* A part of a block that selective recompute handles as a whole. */
struct part {
    unsigned regions; /* bit set of IN(enum op_region) */
    bool drops_output;
    bool keeps_inputs; /* the part keeps its inputs for its replay if no other op keeps them */
};

static const struct part parts[NUM_REPLAYS] = {
    [REPLAY_CORE] = { IN(REGION_ATTENTION_CORE), false, false },
    [REPLAY_MLP] = { IN(REGION_FEED_FORWARD), false, true },
    [REPLAY_NORM] = { IN(REGION_NORM), true, false },
    [REPLAY_EXPERTS] = { IN(REGION_EXPERTS) | IN(REGION_EXPERT_ACTIVATION) |
                             IN(REGION_SHARED_EXPERT),
                         false, true },
    [REPLAY_EXPERT_ACTIVATION] = { IN(REGION_EXPERT_ACTIVATION), true, false },
    [REPLAY_SHARED_EXPERT] = { IN(REGION_SHARED_EXPERT), false, true },
    [REPLAY_LATENT_UP] = { IN(REGION_LATENT_UP), true, false },
};

/* The part in the set `replays` that contains the region; if several parts do, the largest. NULL:
 * the region is not recomputed. */
static const struct part *part_with(enum op_region region, unsigned replays)
{
    const struct part *found = NULL;
    for (int i = 0; i < NUM_REPLAYS; i++) {
        bool is_here = (replays >> i & 1) != 0 && (parts[i].regions & IN(region)) != 0;
        if (is_here && (!found || (found->regions & ~parts[i].regions) == 0))
            found = &parts[i];
    }
    return found;
}

/* A block's forward list, and for each value the op that makes it and the last op that keeps it for
 * the backward; NO_ID: none. */
struct list {
    const struct ops *ops;
    short maker[MAX_VALUES], last_keeper[MAX_VALUES];
};

static void index_list(const struct ops *forward, struct list *list)
{
    list->ops = forward;
    for (int i = 0; i < forward->operands->num_values; i++)
        list->maker[i] = list->last_keeper[i] = NO_ID;
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        for (int k = 0; k < op->out.count; k++)
            list->maker[op->out.at[k]] = (short)i;
        for (int k = 0; k < op->saved.count; k++)
            list->last_keeper[op->saved.at[k]] = (short)i;
    }
}

static bool is_saved(const struct list *list, int value)
{
    return list->last_keeper[value] != NO_ID;
}

/* --- the ledger of a list ----------------------------------------------------------------------
 */

/* Values of one op. */
struct entry {
    double bytes;
    signed char made_in, made_from; /* region and source_region of the op that makes it; made_in -1:
                                       an input of the list */
};

static struct entry entry_of(const struct list *list, int value)
{
    int maker = list->maker[value];
    const struct op *op = maker < 0 ? NULL : &list->ops->at[maker];
    return (struct entry){ value_kept_bytes(&list->ops->operands->values[value]),
                           (signed char)(op ? (int)op->region : -1),
                           (signed char)(op ? (int)op->source_region : 0) };
}

struct ledger_op {
    enum op_region region, source_region;
    double kept_bytes;
    short num_kept, num_in; /* entries: values that no later op keeps, then unkept inputs */
};

static struct ledger ledger_of(const struct list *list, struct arena *arena)
{
    const struct ops *ops = list->ops;
    size_t most = (size_t)ops->count * 2 * MAX_IDS + 1;
    struct ledger_op *at = ARENA_ARRAY(arena, struct ledger_op, (size_t)ops->count + 1);
    struct entry *entries = ARENA_ARRAY(arena, struct entry, most);
    struct entry *next = entries;
    for (int i = 0; i < ops->count; i++) {
        const struct op *op = &ops->at[i];
        at[i] = (struct ledger_op){ .region = op->region,
                                    .source_region = op->source_region,
                                    .kept_bytes = op->kept_bytes };
        for (int k = 0; k < op->saved.count; k++)
            if (list->last_keeper[op->saved.at[k]] == i) {
                *next++ = entry_of(list, op->saved.at[k]);
                at[i].num_kept++;
            }
        for (int k = 0; k < op->in.count; k++)
            if (!is_saved(list, op->in.at[k])) {
                *next++ = entry_of(list, op->in.at[k]);
                at[i].num_in++;
            }
    }
    return (struct ledger){ at, entries, ops->count, (int)(next - entries) };
}

struct ledger ledger_copy(const struct ledger *ledger, struct arena *arena)
{
    size_t ops_bytes = (size_t)ledger->num_ops * sizeof *ledger->ops;
    size_t entries_bytes = (size_t)ledger->num_entries * sizeof *ledger->entries;
    return (struct ledger){
        memcpy(arena_alloc(arena, ops_bytes), ledger->ops, ops_bytes),
        memcpy(arena_alloc(arena, entries_bytes), ledger->entries, entries_bytes),
        ledger->num_ops,
        ledger->num_entries,
    };
}

struct ledger ops_ledger(const struct ops *forward, struct arena *arena)
{
    struct list list;
    index_list(forward, &list);
    return ledger_of(&list, arena);
}

/* The part of each region in a set of parts. */
struct parts_of_regions {
    const struct part *at[NUM_OP_REGIONS];
};

static struct parts_of_regions parts_of_regions(unsigned replays)
{
    struct parts_of_regions parts_of;
    for (int region = 0; region < NUM_OP_REGIONS; region++)
        parts_of.at[region] = part_with((enum op_region)region, replays);
    return parts_of;
}

unsigned replays_outermost(unsigned replays)
{
    unsigned outermost = replays;
    for (int i = 0; i < REPLAY_PER_OP; i++)
        for (int j = 0; j < REPLAY_PER_OP; j++)
            if (i != j && (replays >> i & replays >> j & 1) != 0 &&
                (parts[i].regions & ~parts[j].regions) == 0)
                outermost &= ~(1u << i);
    return outermost;
}

bool replays_overlap(unsigned replays)
{
    return replays_outermost(replays) != replays;
}

static int num_parts(unsigned replays)
{
    int count = 0;
    for (; replays; replays &= replays - 1)
        count++;
    return count;
}

void replays_list(unsigned all, struct replay_sets *out)
{
    out->count = 0;
    for (int size = 1; size <= num_parts(all); size++)
        for (unsigned set = replays_next(0, all); set; set = replays_next(set, all))
            if (num_parts(set) == size && !replays_overlap(set))
                out->at[out->count++] = set;
}

/* The part that replays an op. If a part drops its output, the op that quantises this output
 * belongs to that part. */
static const struct part *part_of(const struct parts_of_regions *parts_of, int region,
                                  int source_region)
{
    const struct part *part = parts_of->at[region];
    const struct part *source = parts_of->at[source_region];
    return !part && source && source->drops_output ? source : part;
}

struct replayed_regions replayed_regions(unsigned replays)
{
    struct replayed_regions regions;
    for (int region = 0; region < NUM_OP_REGIONS; region++) {
        const struct part *part = part_with((enum op_region)region, replays);
        regions.has[region] = part != NULL;
        regions.drops[region] = part && part->drops_output;
    }
    return regions;
}

/* Whether the replay makes a value that an op of `region` is the last to keep, so that the forward
 * may free it. */
static bool is_freed(const struct parts_of_regions *parts_of, const struct entry *entry,
                     enum op_region region)
{
    const struct part *part =
        entry->made_in < 0 ? NULL : part_of(parts_of, entry->made_in, entry->made_from);
    return part && (part->drops_output || (part->regions & IN(region)) != 0);
}

/* A part's inputs that no op keeps must be kept for the replay. For example, fp8 products keep the
 * quantised value, not its source. */
static bool is_kept_for_replay(const struct part *part, int made_in)
{
    return part && part->keeps_inputs && (made_in < 0 || (IN(made_in) & part->regions) == 0);
}

double ledger_freed(const struct ledger *ledger, unsigned replays, double freed_of[NUM_OP_REGIONS])
{
    struct parts_of_regions parts_of = parts_of_regions(replays);
    const struct entry *entry = ledger->entries;
    double freed_bytes = 0;
    memset(freed_of, 0, NUM_OP_REGIONS * sizeof *freed_of);
    for (int i = 0; i < ledger->num_ops; i++) {
        const struct ledger_op *op = &ledger->ops[i];
        const struct part *part = parts_of.at[op->region];
        double bytes = part ? op->kept_bytes : 0, inputs_bytes = 0;
        for (int k = 0; k < op->num_kept; k++, entry++)
            if (is_freed(&parts_of, entry, op->region))
                bytes += entry->bytes;
        for (int k = 0; k < op->num_in; k++, entry++)
            if (is_kept_for_replay(part, entry->made_in))
                inputs_bytes += entry->bytes;
        freed_bytes += bytes - inputs_bytes;
        bool is_replayed = part_of(&parts_of, (int)op->region, (int)op->source_region) != NULL;
        freed_of[is_replayed ? op->region : REGION_REST] += bytes - inputs_bytes;
    }
    return freed_bytes;
}

/* --- per op ---------------------------------------------------------------------------------- */

/* Columns of a product that are recomputed. Matrices that a framework keeps separate count as
 * separate products. Of a block's products the first, third ... are kept. */
static double columns_again(const struct op *op, bool in_place, int *products)
{
    double again = 0;
    double left = op->n;
    for (int i = 0; i < MAX_MATRICES && left > 0; i++) {
        double columns = op->matrices[i] > 0 && !in_place ? op->matrices[i] : left;
        again += *products % 2 == 1 ? columns : 0;
        left -= columns;
        ++*products;
    }
    return again;
}

/* The fraction of an op that is recomputed if another op reads it; `products` counts the products
 * so far. */
static double share_again(const struct op *op, bool in_place, int *products)
{
    if (op->kind == OP_FLASH_ATTENTION || op->kind == OP_REDUCE_SCATTER)
        return 0;
    return op->kind == OP_GEMM ? columns_again(op, in_place, products) / op->n : 1;
}

static bool is_asked_for(const struct list *list, int i, const double *shares)
{
    const struct ops *forward = list->ops;
    for (int k = 0; k < forward->at[i].out.count; k++) {
        int value = forward->at[i].out.at[k];
        if (is_saved(list, value))
            return true;
        for (int j = i + 1; j < forward->count; j++)
            if (shares[j] > 0 && op_reads(&forward->at[j], value))
                return true;
    }
    return false;
}

/* A copy of the op, reduced to a fraction of its matrices. */
static struct op share_of(const struct op *op, double share)
{
    struct op part = *op;
    double input = op->m * op->k;
    double own = op->k * op->n + op->m * op->n;
    if (op->kind != OP_GEMM || share == 1)
        return part;
    part.n *= share;
    part.flops *= share;
    part.model_flops *= share;
    part.bytes *= (input + share * own) / (input + own);
    return part;
}

/* PyTorch keeps every output of a kept op, and the block's input. */
static void keep_outputs(const struct list *list, const double *shares, double *kept_of)
{
    const struct ops *forward = list->ops;
    for (int i = 0; i < forward->operands->num_values; i++)
        kept_of[i] = is_saved(list, i) && list->maker[i] == NO_ID;
    for (int i = 0; i < forward->count; i++)
        for (int k = 0; k < forward->at[i].out.count; k++)
            kept_of[forward->at[i].out.at[k]] = 1 - shares[i];
}

static double kept_bytes(const struct ops *forward, const double *shares, const double *kept_of)
{
    double bytes = 0;
    for (int i = 0; i < forward->operands->num_values; i++)
        bytes += kept_of[i] * value_kept_bytes(&forward->operands->values[i]);
    for (int i = 0; i < forward->count; i++)
        bytes += (1 - shares[i]) * forward->at[i].kept_bytes;
    return bytes;
}

static double all_saved_bytes(const struct ops *forward)
{
    double bytes = 0;
    for (int i = 0; i < forward->count; i++)
        bytes += op_saved_bytes(forward, &forward->at[i]);
    return bytes;
}

/* --- in place -------------------------------------------------------------------------------- */

/* Whether an op writes over a value whose maker is not replayed. Then memory holds only the
 * result. */
static bool writes_over_kept(const struct list *list, int i, const double *shares)
{
    if (!op_is_in_place(list->ops, &list->ops->at[i]))
        return false;
    int maker = list->maker[list->ops->at[i].in.at[0]];
    return maker < 0 || shares[maker] == 0;
}

static void find_read_again(const struct list *list, const double *shares, bool is_read[MAX_VALUES])
{
    for (int i = 0; i < list->ops->count; i++) {
        const struct op *op = &list->ops->at[i];
        for (int k = 0; shares[i] > 0 && k < op->in.count; k++)
            is_read[op->in.at[k]] = true;
        for (int k = 0; shares[i] > 0 && k < MAX_SUMS; k++)
            if (op->sum[k] != NO_ID)
                is_read[op->sum[k]] = true;
    }
}

/* Keeps the values that the backward or the replay reads and that the replay does not make. */
static void keep_what_is_read(const struct list *list, const double *shares, double *kept_of)
{
    bool is_read[MAX_VALUES] = { false };
    find_read_again(list, shares, is_read);
    for (int i = 0; i < list->ops->operands->num_values; i++) {
        int maker = list->maker[i];
        bool is_made = maker >= 0 && shares[maker] > 0;
        kept_of[i] = !is_made && (is_saved(list, i) || is_read[i]);
    }
}

/* --- the result ------------------------------------------------------------------------------ */

/* The recomputed ops as a list. Each op waits for the last op of the new list that is no later than
 * its original `after`. In this list no collective overlaps compute. */
static struct ops some_of(const struct ops *forward, const double *shares, struct arena *arena)
{
    struct ops some = { .at = ARENA_ARRAY(arena, struct op, (size_t)forward->count + 1),
                        .operands = forward->operands,
                        .input = NO_ID,
                        .output = NO_ID };
    int *num_up_to = ARENA_ARRAY(arena, int, (size_t)forward->count + 1);
    for (int i = 0; i < forward->count; i++) {
        int after = forward->at[i].after;
        if (shares[i] > 0) {
            some.at[some.count] = share_of(&forward->at[i], shares[i]);
            some.at[some.count].after = after < 0 ? -1 : num_up_to[after] - 1;
            some.count++;
        }
        num_up_to[i] = some.count;
    }
    return some;
}

static const bool *ops_again(const struct ops *forward, const double *shares, struct arena *arena)
{
    bool *is_again = ARENA_ARRAY(arena, bool, (size_t)forward->count + 1);
    for (int i = 0; i < forward->count; i++)
        is_again[i] = shares[i] > 0;
    return is_again;
}

static void leave_out_unasked(const struct list *list, double *shares)
{
    for (int i = list->ops->count - 1; i >= 0; i--)
        if (!is_asked_for(list, i, shares))
            shares[i] = 0;
}

struct ops ops_read_again(const struct ops *forward, struct arena *arena)
{
    struct list list;
    index_list(forward, &list);
    double *shares = ARENA_ARRAY(arena, double, (size_t)forward->count + 1);
    for (int i = 0; i < forward->count; i++)
        shares[i] = 1;
    leave_out_unasked(&list, shares);
    return some_of(forward, shares, arena);
}

static struct replay replay_per_op(const struct list *list, bool in_place, struct arena *arena)
{
    const struct ops *forward = list->ops;
    double *shares = ARENA_ARRAY(arena, double, (size_t)forward->count + 1);
    double *kept_of = ARENA_ARRAY(arena, double, (size_t)forward->operands->num_values);
    int products = 0;
    for (int i = 0; i < forward->count; i++) {
        shares[i] = share_again(&forward->at[i], in_place, &products);
        if (in_place && writes_over_kept(list, i, shares))
            shares[i] = 0;
    }
    keep_outputs(list, shares, kept_of);
    double freed_bytes = all_saved_bytes(forward) - kept_bytes(forward, shares, kept_of);
    leave_out_unasked(list, shares);
    if (in_place) {
        keep_what_is_read(list, shares, kept_of);
        freed_bytes = all_saved_bytes(forward) - kept_bytes(forward, shares, kept_of);
    }
    freed_bytes = fmax(0, freed_bytes);
    return (struct replay){ .ops = some_of(forward, shares, arena),
                            .is_again = ops_again(forward, shares, arena),
                            .kept_of = kept_of,
                            .freed_bytes = freed_bytes,
                            .freed_of = { freed_bytes } };
}

/* Keeps values that the backward or the replay reads. A value that only replayed parts save is not
 * kept, because the replay computes it again. */
static void keep_outside(const struct list *list, const double *shares, unsigned replays,
                         double *kept_of)
{
    struct parts_of_regions parts_of = parts_of_regions(replays);
    keep_what_is_read(list, shares, kept_of);
    for (int i = 0; i < list->ops->count; i++) {
        const struct op *op = &list->ops->at[i];
        for (int k = 0; k < op->saved.count; k++) {
            struct entry entry = entry_of(list, op->saved.at[k]);
            if (list->last_keeper[op->saved.at[k]] == i)
                kept_of[op->saved.at[k]] = !is_freed(&parts_of, &entry, op->region);
        }
    }
}

struct replay ops_replay(const struct ops *forward, unsigned replays, bool in_place,
                         struct arena *arena)
{
    struct list list;
    index_list(forward, &list);
    if (replays == REPLAYS_PER_OP)
        return replay_per_op(&list, in_place, arena);
    double *shares = ARENA_ARRAY(arena, double, (size_t)forward->count + 1);
    double *kept_of = ARENA_ARRAY(arena, double, (size_t)forward->operands->num_values);
    struct replay replay = { .kept_of = kept_of };
    struct replayed_regions regions = replayed_regions(replays);
    struct ledger ledger = ledger_of(&list, arena);
    replay.freed_bytes = ledger_freed(&ledger, replays, replay.freed_of);
    for (int i = 0; i < forward->count; i++)
        shares[i] =
            regions.has[forward->at[i].region] || regions.drops[forward->at[i].source_region];
    keep_outside(&list, shares, replays, kept_of);
    replay.ops = some_of(forward, shares, arena);
    replay.is_again = ops_again(forward, shares, arena);
    return replay;
}
