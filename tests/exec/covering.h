/* tests/exec/covering.h - chooses few rows that test many combinations of values.
 *
 * Rows are assignments of values to factors, and only some assignments are possible. A covering
 * array of strength three contains every combination of three values of three factors that occurs
 * in any possible row (Cohen, Dalal, Fredman and Patton 1997). covering_choose makes the first rows
 * of such an array.
 */
#ifndef TESTS_EXEC_COVERING_H
#define TESTS_EXEC_COVERING_H

#include <stdint.h>

enum { MOST_FACTORS = 16, MOST_VALUES = 8 };

struct covering_row {
    uint8_t value[MOST_FACTORS];
};

struct covering_rows {
    struct covering_row *at;
    int count, room;
};

/* Owned by the caller, who frees `at`. */
void covering_add(struct covering_rows *rows, const struct covering_row *row);

/* `count` rows of `possible`, each chosen among many candidates for the most new triples of values;
 * the choice depends only on the seed. */
struct covering_rows covering_choose(const struct covering_rows *possible, int num_factors,
                                     int count, uint64_t seed);

#endif
