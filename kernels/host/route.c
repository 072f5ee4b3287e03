/* Chooses each token's experts, and moves rows to the experts and back, on the CPU. */
#include "kernels/host/route.h"

#include "base/arena.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- choosing experts --------------------------------------------------------------------- */

static bool is_among(const int32_t *experts, long count, long expert)
{
    for (long i = 0; i < count; i++)
        if (experts[i] == expert)
            return true;
    return false;
}

/* Finds the expert with the largest logit among those not chosen yet. */
static int32_t next_expert(const struct route *route, const float *logits, const int32_t *experts,
                           long count)
{
    long best = -1;
    for (long e = 0; e < route->experts; e++)
        if (!is_among(experts, count, e) && (best < 0 || logits[e] > logits[best]))
            best = e;
    return (int32_t)best;
}

static void choose(const struct route *route, const float *logits, float *shares, int32_t *experts)
{
    float sum = 0;
    for (long i = 0; i < route->chosen; i++) {
        experts[i] = next_expert(route, logits, experts, i);
        shares[i] = expf(logits[experts[i]] - logits[experts[0]]);
        sum += shares[i];
    }
    for (long i = 0; i < route->chosen; i++)
        shares[i] /= sum;
}

void route_choose(const struct route *route, const float *logits, float *shares, int32_t *places)
{
    size_t bytes = sizeof(int32_t) * (size_t)route->experts;
    int32_t *taken = memset(arena_grow(NULL, bytes), 0, bytes);
    for (long row = 0; row < route->rows; row++) {
        int32_t *at = places + row * route->chosen;
        choose(route, logits + row * route->experts, shares + row * route->chosen, at);
        for (long i = 0; i < route->chosen; i++) {
            int32_t expert = at[i];
            bool has_place = taken[expert] < route->capacity;
            at[i] = has_place ? expert * (int32_t)route->capacity + taken[expert] : -1 - expert;
            taken[expert] += has_place;
        }
    }
    free(taken);
}

/* The gradient of the softmax: share x (dshare - sum of share x dshare). */
void route_choose_gradient(const struct route *route, const float *dshares, const float *shares,
                           const int32_t *places, float *dlogits)
{
    memset(dlogits, 0, sizeof *dlogits * (size_t)(route->rows * route->experts));
    for (long row = 0; row < route->rows; row++) {
        long first = row * route->chosen;
        float mean = 0;
        for (long i = first; i < first + route->chosen; i++)
            mean += shares[i] * dshares[i];
        for (long i = first; i < first + route->chosen; i++) {
            long expert = places[i] < 0 ? -1 - places[i] : places[i] / route->capacity;
            dlogits[row * route->experts + expert] = shares[i] * (dshares[i] - mean);
        }
    }
}

/* --- sending rows and returning them ------------------------------------------------------ */

static float share_of(const float *shares, long i)
{
    return shares ? shares[i] : 1;
}

static void add_scaled(long n, float scale, const float *x, float *sum)
{
    for (long i = 0; i < n; i++)
        sum[i] += scale * x[i];
}

void passage_spread(const struct passage *p, const float *x, const float *shares,
                    const int32_t *places, float *y)
{
    memset(y, 0, sizeof *y * (size_t)(p->num_places * p->width));
    for (long i = 0; i < p->rows * p->chosen; i++)
        if (places[i] >= 0)
            add_scaled(p->width, share_of(shares, i), x + i / p->chosen * p->width,
                       y + places[i] * p->width);
}

void passage_gather(const struct passage *p, const float *x, const float *shares,
                    const int32_t *places, float *y)
{
    memset(y, 0, sizeof *y * (size_t)(p->rows * p->width));
    for (long i = 0; i < p->rows * p->chosen; i++)
        if (places[i] >= 0)
            add_scaled(p->width, share_of(shares, i), x + places[i] * p->width,
                       y + i / p->chosen * p->width);
}

void passage_share_gradient(const struct passage *p, const float *dy, const float *x,
                            const int32_t *places, float *dshares)
{
    for (long i = 0; i < p->rows * p->chosen; i++) {
        const float *row = dy + i / p->chosen * p->width;
        float sum = 0;
        for (long j = 0; j < p->width && places[i] >= 0; j++)
            sum += row[j] * x[places[i] * p->width + j];
        dshares[i] = sum;
    }
}
