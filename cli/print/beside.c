#include "cli/print/beside.h"

#include "cli/print/apportion.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

void show_beside_heading(const struct terminal *terminal, const char *title, const char *left,
                         const char *right)
{
    printf("\n  %s%-16s%11s%11s%11s%s\n", terminal_bold(terminal), title, left, right, "difference",
           terminal_plain(terminal));
}

static void add_cell(const struct terminal *terminal, struct text *line, double value, int decimals,
                     bool is_signed)
{
    struct text cell = { 0 };
    bool is_zero = fabs(value) < 0.5 * pow(10, -decimals);
    const char *sign = is_zero || !is_signed ? "" : value < 0 ? terminal_minus(terminal) : "+";
    text_add(&cell, "%s%.*f", sign, decimals, fabs(is_zero ? 0 : value));
    text_add_padded(line, text_get(&cell), -11);
    text_release(&cell);
}

void show_beside(const struct terminal *terminal, const struct beside *row, int decimals)
{
    struct text line = { 0 };
    text_add(&line, "  %-16s", row->name);
    add_cell(terminal, &line, row->left, decimals, false);
    add_cell(terminal, &line, row->right, decimals, false);
    add_cell(terminal, &line, row->right - row->left, decimals, true);
    if (*row->remark)
        text_add(&line, "   %s%s%s", terminal_dim(terminal), row->remark, terminal_plain(terminal));
    printf("%s\n", text_get(&line));
    text_release(&line);
}

void show_beside_sum(const struct terminal *terminal, const struct beside *rows, int count,
                     int decimals)
{
    enum { MOST_ROWS = 32 };
    double left[MOST_ROWS] = { 0 }, right[MOST_ROWS] = { 0 }, unit = pow(10, -decimals);
    double left_units[MOST_ROWS], right_units[MOST_ROWS];
    struct beside shown = rows[count - 1];
    assert(count <= MOST_ROWS);
    for (int i = 0; i < count - 1; i++) {
        left[i] = rows[i].left;
        right[i] = rows[i].right;
    }
    apportion(left, count - 1, unit, left_units);
    apportion(right, count - 1, unit, right_units);
    shown.left = shown.right = 0;
    for (int i = 0; i < count - 1; i++) {
        struct beside row = rows[i];
        row.left = left_units[i] * unit;
        row.right = right_units[i] * unit;
        shown.left += row.left;
        shown.right += row.right;
        show_beside(terminal, &row, decimals);
    }
    show_beside(terminal, &shown, decimals);
}
