/* cli/print/beside.h - prints two values of a quantity side by side, and their difference. */
#ifndef CLI_PRINT_BESIDE_H
#define CLI_PRINT_BESIDE_H

#include "cli/print/terminal.h"

struct beside {
    const char *name;
    double left, right; /* shown as they are, then right minus left */
    const char *remark; /* "": none */
};

/* An empty line, then `title` and the heads of the columns. */
void show_beside_heading(const struct terminal *terminal, const char *title, const char *left,
                         const char *right);
void show_beside(const struct terminal *terminal, const struct beside *row, int decimals);

/* The same for rows of which the last is the others' sum, down to its last digit. */
void show_beside_sum(const struct terminal *terminal, const struct beside *rows, int count,
                     int decimals);

#endif
