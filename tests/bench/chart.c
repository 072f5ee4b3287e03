#include "tests/bench/chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 16, LINE_HEIGHT = 16 };

/* The colours of cli/score/scatter.c, which are distinguishable on white and on near-black. */
const char *const chart_colours[CHART_COLOURS] = { "#0072b2", "#e69f00", "#009e73", "#d55e00",
                                                   "#cc79a7", "#56b4e9", "#7f8c9a", "#8c6bb1",
                                                   "#a6761d", "#6a9f00" };

/* --- a page ------------------------------------------------------------------------------- */

void chart_begin(struct text *svg, const char *title, double width, double height)
{
    text_add(svg,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\" role=\"img\">\n<title>%s</title>\n"
             "<style>text{font:13px system-ui,sans-serif;fill:#24292f}.page{fill:#ffffff}"
             ".frame{fill:none;stroke:#8c959f}.grid{stroke:#d8dee4}.title{font-weight:600}"
             "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}"
             ".frame{stroke:#6e7681}.grid{stroke:#2a3038}}</style>\n"
             "<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n",
             width, height, width, height, title, width, height);
}

void chart_end(struct text *svg)
{
    text_add(svg, "</svg>\n");
}

void chart_label(struct text *svg, const char *anchor, double x, double y, const char *words)
{
    text_add(svg, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", anchor, x, y,
             words);
}

void chart_write(const struct text *svg, const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text_get(svg), file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    printf("wrote %s\n", path);
}

/* --- a panel ------------------------------------------------------------------------------ */

static double share(const struct chart_axis *axis, double value)
{
    if (axis->is_log)
        return log(value / axis->low) / log(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

double chart_x(const struct chart_panel *panel, double x)
{
    return panel->left + panel->width * share(&panel->x, x);
}

double chart_y(const struct chart_panel *panel, double y)
{
    return panel->top + panel->height * (1 - share(&panel->y, y));
}

static void add_line(struct text *svg, double x1, double y1, double x2, double y2)
{
    text_add(svg, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x1,
             y1, x2, y2);
}

static void add_ticks(struct text *svg, const struct chart_panel *panel)
{
    double right = panel->left + panel->width, bottom = panel->top + panel->height;
    char word[32];
    for (int i = 0; i < panel->x.num_ticks; i++) {
        double x = chart_x(panel, panel->x.ticks[i]);
        snprintf(word, sizeof word, "%g", panel->x.ticks[i]);
        add_line(svg, x, panel->top, x, bottom);
        chart_label(svg, "middle", x, bottom + 18, word);
    }
    for (int i = 0; i < panel->y.num_ticks; i++) {
        double y = chart_y(panel, panel->y.ticks[i]);
        snprintf(word, sizeof word, "%g", panel->y.ticks[i]);
        add_line(svg, panel->left, y, right, y);
        chart_label(svg, "end", panel->left - 8, y + 4, word);
    }
}

void chart_frame(struct text *svg, const struct chart_panel *panel)
{
    double bottom = panel->top + panel->height;
    add_ticks(svg, panel);
    text_add(svg, "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
             panel->left, panel->top, panel->width, panel->height);
    text_add(svg, "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", panel->left,
             panel->top - 26, panel->title);
    chart_label(svg, "start", panel->left, panel->top - 8, panel->y.title);
    chart_label(svg, "end", panel->left + panel->width, bottom + 36, panel->x.title);
}

/* --- lines -------------------------------------------------------------------------------- */

static bool is_inside(const struct chart_axis *axis, double value)
{
    double at = share(axis, value);
    return at >= -1e-9 && at <= 1 + 1e-9;
}

/* Index of the last point that is drawn; -1: none. */
static int add_points(struct text *svg, const struct chart_panel *panel,
                      const struct chart_line *line)
{
    int last = -1;
    text_add(svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
             chart_colours[line->colour % CHART_COLOURS]);
    for (int i = 0; i < line->count; i++)
        if (is_inside(&panel->x, line->x[i]) && is_inside(&panel->y, line->y[i])) {
            text_add(svg, "%.1f,%.1f ", chart_x(panel, line->x[i]), chart_y(panel, line->y[i]));
            last = i;
        }
    text_add(svg, "\"/>\n");
    return last;
}

/* The position of a line's name. */
struct name {
    const struct chart_line *line;
    double x, y;
};

static int compare_names(const void *a, const void *b)
{
    double left = ((const struct name *)a)->y, right = ((const struct name *)b)->y;
    return (left > right) - (left < right);
}

/* Moves names apart: first downwards, then up from the lower edge. */
static void spread(struct name *names, int count, double bottom)
{
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 1; i < count; i++)
        names[i].y = fmax(names[i].y, names[i - 1].y + LINE_HEIGHT);
    for (int i = count - 1; i >= 0; i--)
        names[i].y = fmin(names[i].y, i == count - 1 ? bottom : names[i + 1].y - LINE_HEIGHT);
}

void chart_lines(struct text *svg, const struct chart_panel *panel, const struct chart_line *lines,
                 int num_lines)
{
    struct name names[MOST_LINES];
    int count = 0;
    for (int i = 0; i < num_lines && i < MOST_LINES; i++) {
        int last = add_points(svg, panel, &lines[i]);
        if (last >= 0)
            names[count++] = (struct name){ &lines[i], chart_x(panel, lines[i].x[last]),
                                            chart_y(panel, lines[i].y[last]) + 4 };
    }
    spread(names, count, panel->top + panel->height + 4);
    for (int i = 0; i < count; i++)
        text_add(svg, "<text x=\"%.1f\" y=\"%.1f\" style=\"fill:%s\">%s</text>\n",
                 panel->left + panel->width + 8, names[i].y,
                 chart_colours[names[i].line->colour % CHART_COLOURS], names[i].line->name);
}

void chart_cell(struct text *svg, const struct chart_panel *panel, double x, double right, double y,
                double above, int colour)
{
    double left_px = chart_x(panel, x), top_px = chart_y(panel, above);
    text_add(svg,
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
             "shape-rendering=\"crispEdges\"/>\n",
             left_px, top_px, chart_x(panel, right) - left_px, chart_y(panel, y) - top_px,
             chart_colours[colour % CHART_COLOURS]);
}
