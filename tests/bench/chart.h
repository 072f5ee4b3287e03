/* tests/bench/chart.h - panels of lines, or of coloured cells, as a picture (SVG).
 *
 * Legible on white and on near-black, which the viewer's setting chooses. Lines are named at their
 * right end. All coordinates in pixels from the top left. */
#ifndef TESTS_BENCH_CHART_H
#define TESTS_BENCH_CHART_H

#include "base/text.h"

#include <stdbool.h>

enum { CHART_COLOURS = 10 };
extern const char *const chart_colours[CHART_COLOURS]; /* "#0072b2" ... */

struct chart_axis {
    const char *title; /* with its unit */
    double low, high;
    bool is_log;
    const double *ticks;
    int num_ticks;
};

struct chart_line {
    const char *name;
    const double *x, *y; /* points beyond the axes are left out */
    int count;
    int colour;
};

struct chart_panel {
    const char *title;
    double left, top, width, height; /* of the frame */
    struct chart_axis x, y;
};

void chart_begin(struct text *svg, const char *title, double width, double height);
void chart_end(struct text *svg);
/* A sentence in plain text; anchor: "start", "middle" or "end". */
void chart_label(struct text *svg, const char *anchor, double x, double y, const char *words);

void chart_frame(struct text *svg, const struct chart_panel *panel);
void chart_lines(struct text *svg, const struct chart_panel *panel, const struct chart_line *lines,
                 int num_lines);
/* From x to right and y to above, in the panel's units. */
void chart_cell(struct text *svg, const struct chart_panel *panel, double x, double right, double y,
                double above, int colour);
double chart_x(const struct chart_panel *panel, double x);
double chart_y(const struct chart_panel *panel, double y);

/* Writes it to folder/name, or ends the program with the reason. */
void chart_write(const struct text *svg, const char *folder, const char *name);

#endif
