/* tests/bench/chart.h - panels of lines, or of coloured cells, as a picture (SVG).
 *
 * Charts are legible on white and on near-black; the viewer's settings choose the background. Lines
 * have their names at their right end. Coordinates are in pixels from the top left. */
#ifndef TESTS_BENCH_CHART_H
#define TESTS_BENCH_CHART_H

#include "base/text.h"

#include <stdbool.h>

enum { CHART_COLOURS = 10 };
extern const char *const chart_colours[CHART_COLOURS]; /* "#0072b2" ... */

struct chart_axis {
    const char *title; /* text of the axis, with its unit */
    double low, high;
    bool is_log;
    const double *ticks;
    int num_ticks;
};

struct chart_line {
    const char *name;
    const double *x, *y; /* points outside the axes are not drawn */
    int count;
    int colour;
};

struct chart_panel {
    const char *title;
    double left, top, width, height; /* position and size of the frame */
    struct chart_axis x, y;
};

void chart_begin(struct text *svg, const char *title, double width, double height);
void chart_end(struct text *svg);
/* Adds a text; anchor: "start", "middle" or "end". */
void chart_label(struct text *svg, const char *anchor, double x, double y, const char *words);

void chart_frame(struct text *svg, const struct chart_panel *panel);
void chart_lines(struct text *svg, const struct chart_panel *panel, const struct chart_line *lines,
                 int num_lines);
/* Adds a cell from x to `right` and from y to `above`, in the panel's units. */
void chart_cell(struct text *svg, const struct chart_panel *panel, double x, double right, double y,
                double above, int colour);
double chart_x(const struct chart_panel *panel, double x);
double chart_y(const struct chart_panel *panel, double y);

/* Writes the picture to folder/name, or ends the program with the reason. */
void chart_write(const struct text *svg, const char *folder, const char *name);

#endif
