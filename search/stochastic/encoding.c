/* Candidate plans as points, which have one digit for each searched axis. A split is a division of
 * layers over chunks. */
#include "search/stochastic/encoding.h"

#include "base/length.h"
#include "sim/plan/axis.h"

#include <stdlib.h>

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* All split numbers that occur with any pp of the space, in rising order. */
static struct values list_splits(const struct space *space, struct arena *arena)
{
    int most = 0;
    for (int i = 0; i < space->pp.count; i++)
        most += space->splits[i].count;
    struct values values = { ARENA_ARRAY(arena, int, (size_t)most), 0 };
    for (int i = 0; i < space->pp.count; i++)
        for (int j = 0; j < space->splits[i].count; j++)
            values.at[values.count++] = split_number(&space->splits[i].at[j]);
    if (values.count > 0)
        qsort(values.at, (size_t)values.count, sizeof *values.at, by_value);
    int kept = 0;
    for (int i = 0; i < values.count; i++)
        if (kept == 0 || values.at[kept - 1] != values.at[i])
            values.at[kept++] = values.at[i];
    values.count = kept;
    return values;
}

static struct values list_indices(int count, struct arena *arena)
{
    struct values values = { ARENA_ARRAY(arena, int, (size_t)count), count };
    for (int i = 0; i < count; i++)
        values.at[i] = i;
    return values;
}

static struct values list_one(struct arena *arena)
{
    struct values values = { ARENA_NEW(arena, int), 1 };
    values.at[0] = 1;
    return values;
}

struct encoding encoding_new(const struct space *space, struct arena *arena)
{
    struct encoding encoding = { .space = space };
    encoding.values[FACTOR_TP] = space->tp;
    encoding.values[FACTOR_CP] = space->cp;
    encoding.values[FACTOR_PP] = space->pp;
    encoding.values[FACTOR_ORDER] = list_indices(space->orders.count, arena);
    encoding.values[FACTOR_SPLIT] = list_splits(space, arena);
    encoding.values[FACTOR_SP] = space->sp;
    encoding.values[FACTOR_MICROBATCH] = space->microbatch;
    encoding.values[FACTOR_RECOMPUTE] = space->recompute;
    encoding.values[FACTOR_ZERO] = space->zero;
    encoding.values[FACTOR_EP] = space->ep;
    encoding.values[FACTOR_ETP] = space->etp;
    int num_further = num_axes - NUM_NAMED_AXES;
    for (int i = 0; i < MAX_AXES - NUM_NAMED_AXES; i++)
        encoding.values[FACTOR_FURTHER + i] =
            i < num_further ? space->degree[NUM_NAMED_AXES + i] : list_one(arena);
    encoding.num_digits = FACTOR_FURTHER + num_further;
    encoding.num_factors = num_further > 0             ? encoding.num_digits
                           : space->model->experts > 0 ? (int)FACTOR_FURTHER
                                                       : (int)FACTOR_EP;
    for (int i = 0; i < NUM_FACTORS; i++)
        encoding.most_digits = larger(encoding.most_digits, encoding.values[i].count);
    return encoding;
}

static int value_of(const struct encoding *encoding, const struct point *point, enum factor factor)
{
    return encoding->values[factor].at[point->digit[factor]];
}

/* Whether the factor is a degree that must divide the GPUs. */
static bool is_divisor(int factor)
{
    return factor <= FACTOR_PP || factor >= FACTOR_FURTHER;
}

static bool divides_gpus(const struct encoding *encoding, const struct point *point, int last)
{
    long long ranks = 1;
    for (int i = FACTOR_TP; i <= last; i++) {
        if (!is_divisor(i))
            continue;
        ranks *= value_of(encoding, point, (enum factor)i);
        if (ranks > encoding->space->num_gpus)
            return false;
    }
    return encoding->space->num_gpus % ranks == 0;
}

/* Whether the point's rank order is the first of those that place its ranks alike. Only that order
 * is used. */
static bool is_first_order(const struct encoding *encoding, const struct point *point)
{
    const struct space *space = encoding->space;
    struct plan plan = space->base;
    int order = value_of(encoding, point, FACTOR_ORDER);
    if (!space->fits_gpus)
        return order == 0;
    plan.tp = value_of(encoding, point, FACTOR_TP);
    plan.cp = value_of(encoding, point, FACTOR_CP);
    plan.pp = value_of(encoding, point, FACTOR_PP);
    plan.dp = space->num_gpus / (plan.tp * plan.cp * plan.pp);
    return orders_is_first(&space->orders, order, &plan);
}

bool encoding_allows(const struct encoding *encoding, const struct point *point, enum factor factor,
                     int digit)
{
    const struct space *space = encoding->space;
    struct point next = *point;
    next.digit[factor] = digit;
    if (is_divisor((int)factor))
        return space->fits_gpus ? divides_gpus(encoding, &next, (int)factor) : digit == 0;
    switch (factor) {
    case FACTOR_ORDER:
        return is_first_order(encoding, &next);
    case FACTOR_SPLIT:
        return space_has_split(space, next.digit[FACTOR_PP],
                               value_of(encoding, &next, FACTOR_SPLIT));
    case FACTOR_SP:
        return value_of(encoding, &next, FACTOR_SP) == 0 || space->sp_is_fixed ||
               value_of(encoding, &next, FACTOR_TP) > 1;
    case FACTOR_MICROBATCH:
    case FACTOR_RECOMPUTE:
    case FACTOR_ZERO:
    case FACTOR_EP:
    case FACTOR_ETP:
    default: /* the factors that are degrees */
        break;
    }
    return true;
}

static void add_digit(const struct encoding *encoding, const struct point *point, int factor,
                      size_t *block)
{
    *block = *block * (size_t)encoding->values[factor].count + (size_t)point->digit[factor];
}

static size_t block_of(const struct encoding *encoding, const struct point *point)
{
    static const enum factor slow[] = { FACTOR_ORDER, FACTOR_TP, FACTOR_CP, FACTOR_EP };
    static const enum factor fast[] = { FACTOR_ETP, FACTOR_SP, FACTOR_MICROBATCH, FACTOR_PP };
    size_t block = 0;
    for (size_t i = 0; i < LENGTH(slow); i++)
        add_digit(encoding, point, (int)slow[i], &block);
    for (int i = FACTOR_FURTHER; i < encoding->num_factors; i++)
        add_digit(encoding, point, i, &block);
    for (size_t i = 0; i < LENGTH(fast); i++)
        add_digit(encoding, point, (int)fast[i], &block);
    return block;
}

bool encoding_plan(const struct encoding *encoding, const struct point *point, struct plan *out)
{
    int split = value_of(encoding, point, FACTOR_SPLIT);
    if (!space_family(encoding->space, block_of(encoding, point), split, out))
        return false;
    out->recompute = value_of(encoding, point, FACTOR_RECOMPUTE);
    out->zero = value_of(encoding, point, FACTOR_ZERO);
    return true;
}

uint64_t encoding_key(const struct encoding *encoding, const struct point *point)
{
    uint64_t key = 0;
    for (int i = 0; i < NUM_FACTORS; i++)
        key = key * (uint64_t)encoding->values[i].count + (uint64_t)point->digit[i];
    return key;
}

struct point encoding_point(const struct encoding *encoding, uint64_t key)
{
    struct point point;
    for (int i = NUM_FACTORS - 1; i >= 0; i--) {
        uint64_t count = (uint64_t)encoding->values[i].count;
        point.digit[i] = (int)(key % count);
        key /= count;
    }
    return point;
}

/* One of the allowed digits; -1 when there is none. */
static int draw_digit(const struct encoding *encoding, struct random *rng,
                      const struct point *point, enum factor factor)
{
    int num_allowed = 0;
    for (int digit = 0; digit < encoding->values[factor].count; digit++)
        num_allowed += encoding_allows(encoding, point, factor, digit);
    if (num_allowed == 0)
        return -1;
    int skip = random_below(rng, num_allowed);
    int digit = 0;
    while (!encoding_allows(encoding, point, factor, digit) || skip-- > 0)
        digit++;
    return digit;
}

bool point_draw(const struct encoding *encoding, struct random *rng, struct point *out)
{
    *out = (struct point){ 0 };
    for (int i = 0; i < encoding->num_factors; i++) {
        int digit = draw_digit(encoding, rng, out, (enum factor)i);
        if (digit < 0)
            return false;
        out->digit[i] = digit;
    }
    return true;
}

static void move_digit(struct random *rng, int count, int *digit)
{
    int step = 1;
    while (step < count && random_below(rng, 2) == 0)
        step++;
    int moved = random_below(rng, 2) == 0 ? *digit - step : *digit + step;
    if (moved < 0 || moved >= count)
        moved = (*digit + 1 + random_below(rng, count - 1)) % count;
    *digit = moved;
}

void point_mutate(const struct encoding *encoding, struct random *rng, struct point *point)
{
    int movable[NUM_FACTORS];
    int num_movable = 0;
    for (int i = 0; i < encoding->num_factors; i++)
        if (encoding->values[i].count > 1)
            movable[num_movable++] = i;
    if (num_movable == 0)
        return;
    int sure = movable[random_below(rng, num_movable)];
    for (int i = 0; i < encoding->num_factors; i++) {
        int count = encoding->values[i].count;
        if (count > 1 && (random_below(rng, encoding->num_factors) == 0 || i == sure))
            move_digit(rng, count, &point->digit[i]);
    }
}
