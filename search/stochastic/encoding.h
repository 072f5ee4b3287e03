/* search/stochastic/encoding.h - the candidates of a space as digits.
 *
 * A point has one digit for each searched axis: an index into its rising list of values. Degrees
 * are mostly powers of two, so one step of a digit is mostly a factor of two. The digit of vpp
 * indexes the values that some pp allows, the digit of the order indexes the space's list. Digits
 * that give no candidate (tp x cp x pp does not divide the GPUs, or vpp the layers of a stage) are
 * outside the space, not infeasible. */
#ifndef SEARCH_STOCHASTIC_ENCODING_H
#define SEARCH_STOCHASTIC_ENCODING_H

#include "base/random.h"
#include "search/space.h"

/* The digits in the order in which they are chosen. Earlier digits determine the allowed values of
 * later ones. */
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
    FACTOR_EP, /* FACTOR_EP and the next one exist only for models with experts */
    FACTOR_ETP,
    FACTOR_FURTHER, /* degrees of further axes that are not named here */
    NUM_FACTORS = FACTOR_FURTHER + MAX_AXES - NUM_NAMED_AXES
};

struct point {
    int digit[NUM_FACTORS];
};

struct encoding {
    const struct space *space;
    struct values values[NUM_FACTORS];
    int num_factors; /* number of first factors that a mutation may move: all that the space has */
    int num_digits;  /* number of digits that are drawn; digits after them are 0 */
    int most_digits; /* the largest number of values of any factor */
};

/* Lists live in the arena. */
struct encoding encoding_new(const struct space *space, struct arena *arena);

/* Whether a digit is allowed for `factor` after the point's earlier digits. A point of allowed
 * digits can still be outside the space. */
bool encoding_allows(const struct encoding *encoding, const struct point *point, enum factor factor,
                     int digit);

/* The point's candidate; false when it is outside the space. */
bool encoding_plan(const struct encoding *encoding, const struct point *point, struct plan *out);

/* encoding_key: a unique number of the point; encoding_point: its inverse. */
uint64_t encoding_key(const struct encoding *encoding, const struct point *point);
struct point encoding_point(const struct encoding *encoding, uint64_t key);

/* Draws each digit uniformly from the allowed ones; false at a dead end. */
bool point_draw(const struct encoding *encoding, struct random *rng, struct point *out);

/* Moves each digit that has several values with probability 1 / num_factors, and at least one of
 * them. A digit moves by one step up or down; each further step is half as likely as the one
 * before. A digit that would leave its range is redrawn. */
void point_mutate(const struct encoding *encoding, struct random *rng, struct point *point);

#endif
