/* cli/print/beside.h - prints two values of a quantity next to each other, with their
 * difference. */
#ifndef CLI_PRINT_BESIDE_H
#define CLI_PRINT_BESIDE_H

#include "cli/print/terminal.h"

struct beside {
    const char *name;
    double left, right; /* the two values; the difference shown is right minus left */
    const char *remark; /* "": none */
};

/* Prints an empty line, then `title` and the column heads. */
void show_beside_heading(const struct terminal *terminal, const char *title, const char *left,
                         const char *right);
void show_beside(const struct terminal *terminal, const struct beside *row, int decimals);

/* Prints rows whose last row is the sum of the others. Values are rounded so that the printed sum
 * is exact. */
void show_beside_sum(const struct terminal *terminal, const struct beside *rows, int count,
                     int decimals);

#endif
