/* search/stochastic/encoding.h - the candidates of a space as digits.
 *
 * A point has one digit for each searched axis: an index into its rising list of values. Degrees
 * are mostly powers of two, so a step of one digit is a factor of two. The digit of vpp indexes all
 * values that some pp allows, that of the order the space's list. Digits that make no candidate (tp
 * x cp x pp does not divide the GPUs, vpp not the layers of a stage) are outside the space, not
 * infeasible. */
#ifndef SEARCH_STOCHASTIC_ENCODING_H
#define SEARCH_STOCHASTIC_ENCODING_H

#include "base/random.h"
#include "search/space.h"

/* In the order in which digits are chosen: earlier digits decide which later ones are allowed. */
enum factor {
    FACTOR_TP,
    FACTOR_CP,
    FACTOR_PP,
    FACTOR_ORDER,
    FACTOR_SPLIT,
    FACTOR_SP,
    FACTOR_MICROBATCH,
    FACTOR_RECOMPUTE,
    FACTOR_ZERO,
    NUM_FACTORS
};

struct point {
    int digit[NUM_FACTORS];
};

struct encoding {
    const struct space *space;
    struct values values[NUM_FACTORS];
    int most_digits; /* the most digits of any factor */
};

/* Lists live in the arena. */
struct encoding encoding_new(const struct space *space, struct arena *arena);

/* Whether a digit may follow the point's digits before that factor. A point of allowed digits can
 * still be outside the space. */
bool encoding_allows(const struct encoding *encoding, const struct point *point, enum factor factor,
                     int digit);

/* The point's candidate; false when it is outside the space. */
bool encoding_plan(const struct encoding *encoding, const struct point *point, struct plan *out);

/* Each point has a number of its own; the second function turns it back into the point. */
uint64_t encoding_key(const struct encoding *encoding, const struct point *point);
struct point encoding_point(const struct encoding *encoding, uint64_t key);

/* Draws each digit evenly from the allowed ones; false at a dead end. */
bool point_draw(const struct encoding *encoding, struct random *rng, struct point *out);

/* Moves each digit with probability 1 / NUM_FACTORS, and at least one: by one step either way, and
 * with halving probability by more. Past an end it is drawn anew. */
void point_mutate(const struct encoding *encoding, struct random *rng, struct point *point);

#endif
