#include "tests/calibration/regret_plot.h"

#include "base/length.h"

#include <math.h>

enum { WIDTH = 960, HEIGHT = 850, LEFT = 72, PLOT_WIDTH = 660, LEGEND_LEFT = 756 };
enum { MOST_RUNS = 256, STEPS_A_DECADE = 20 };

/* The colours of cli/score/scatter.c, which are distinguishable on white and on near-black. */
static const char *const colours[] = { "#0072b2", "#e69f00", "#009e73", "#7f8c9a",
                                       "#d55e00", "#cc79a7", "#56b4e9", "#8c6bb1" };
enum { NUM_COLOURS = LENGTH(colours) };

/* A panel of the picture. Its x axis is logarithmic. Its y axis is either logarithmic, with 0 drawn
 * at the lower edge, or linear, for fractions. */
struct panel {
    int top, height;
    double x_low, x_high;
    double y_low, y_high; /* y_low 0: linear */
};

static const struct panel by_scores = { 64, 320, 10, 10000, 1e-4, 3 };
static const struct panel by_share = { 440, 130, 10, 10000, 0, 1 };
static const struct panel by_time = { 640, 170, 1e-4, 0.2, 1e-4, 3 };

/* Reads one run's regret at a position of a panel. */
typedef double read_run(const struct regret_run *run, double x);

static double x_of(const struct panel *panel, double x)
{
    double held = fmax(panel->x_low, fmin(panel->x_high, x));
    return LEFT + PLOT_WIDTH * log(held / panel->x_low) / log(panel->x_high / panel->x_low);
}

static double y_of(const struct panel *panel, double y)
{
    double held = fmax(panel->y_low, fmin(panel->y_high, y));
    double share = panel->y_low > 0 ? log(held / panel->y_low) / log(panel->y_high / panel->y_low)
                                    : held / panel->y_high;
    return panel->top + panel->height * (1 - share);
}

static void add_label(struct text *svg, const char *anchor, double x, double y, const char *word)
{
    text_add(svg, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", anchor, x, y, word);
}

static void add_line(struct text *svg, const char *class, double x1, double y1, double x2,
                     double y2)
{
    text_add(svg, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
             x1, y1, x2, y2);
}

static void add_tick_x(struct text *svg, const struct panel *panel, double x, const char *word)
{
    double at = x_of(panel, x);
    add_line(svg, "grid", at, panel->top, at, panel->top + panel->height);
    add_label(svg, "middle", at, panel->top + panel->height + 17, word);
}

static void add_tick_y(struct text *svg, const struct panel *panel, double y, const char *word)
{
    add_line(svg, "grid", LEFT, y_of(panel, y), LEFT + PLOT_WIDTH, y_of(panel, y));
    add_label(svg, "end", LEFT - 8, y_of(panel, y) + 4, word);
}

static void add_frame(struct text *svg, const struct panel *panel, const char *title)
{
    text_add(svg, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
             panel->top, PLOT_WIDTH, panel->height);
    add_label(svg, "start", LEFT, panel->top - 8, title);
}

static void add_regret_ticks(struct text *svg, const struct panel *panel)
{
    add_tick_y(svg, panel, 1e-4, "&lt; 0.01 %");
    add_tick_y(svg, panel, 1e-3, "0.1 %");
    add_tick_y(svg, panel, 1e-2, "1 %");
    add_tick_y(svg, panel, 0.1, "10 %");
    add_tick_y(svg, panel, 1, "100 %");
}

static void add_score_ticks(struct text *svg, const struct panel *panel)
{
    add_tick_x(svg, panel, 10, "10");
    add_tick_x(svg, panel, 100, "100");
    add_tick_x(svg, panel, 1000, "1,000");
    add_tick_x(svg, panel, 10000, "10,000 scores");
}

static void add_axes(struct text *svg)
{
    add_score_ticks(svg, &by_scores);
    add_regret_ticks(svg, &by_scores);
    add_frame(svg, &by_scores,
              "regret: best step time over the optimum's, less 1; median and quartiles");
    add_score_ticks(svg, &by_share);
    add_tick_y(svg, &by_share, 0, "0 %");
    add_tick_y(svg, &by_share, 0.5, "50 %");
    add_tick_y(svg, &by_share, 1, "100 %");
    add_frame(svg, &by_share, "share of runs within 1 % of the optimum");
    add_tick_x(svg, &by_time, 1e-4, "0.1 ms");
    add_tick_x(svg, &by_time, 1e-3, "1 ms");
    add_tick_x(svg, &by_time, 1e-2, "10 ms");
    add_tick_x(svg, &by_time, 0.1, "100 ms");
    add_regret_ticks(svg, &by_time);
    add_frame(svg, &by_time, "median regret against time on one core");
}

/* --- lines -------------------------------------------------------------------------------- */

static double regret_after(const struct regret_run *run, double scores)
{
    return run->regret[(int)fmin(scores + 0.5, run->budget)];
}

static double quantile_at(const struct plot_line *line, read_run *read, double x, double share)
{
    double values[MOST_RUNS];
    int count = line->num_runs < MOST_RUNS ? line->num_runs : MOST_RUNS;
    for (int i = 0; i < count; i++)
        values[i] = read(&line->runs[i], x);
    return quantile(values, count, share);
}

static int num_steps(const struct panel *panel)
{
    return (int)ceil(STEPS_A_DECADE * log10(panel->x_high / panel->x_low));
}

static double step_x(const struct panel *panel, int step)
{
    return fmin(panel->x_high, panel->x_low * pow(10, step / (double)STEPS_A_DECADE));
}

static void add_median(struct text *svg, const struct panel *panel, const struct plot_line *line,
                       read_run *read, const char *colour)
{
    text_add(svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = 0; i <= num_steps(panel); i++) {
        double x = step_x(panel, i);
        text_add(svg, "%.1f,%.1f ", x_of(panel, x), y_of(panel, quantile_at(line, read, x, 0.5)));
    }
    text_add(svg, "\"/>\n");
}

/* Adds the band between the quartiles: along the upper quartile, then back along the lower one. */
static void add_band(struct text *svg, const struct panel *panel, const struct plot_line *line,
                     read_run *read, const char *colour)
{
    text_add(svg, "<polygon stroke=\"none\" fill=\"%s\" fill-opacity=\"0.13\" points=\"", colour);
    int steps = num_steps(panel);
    for (int i = 0; i <= steps; i++)
        text_add(svg, "%.1f,%.1f ", x_of(panel, step_x(panel, i)),
                 y_of(panel, quantile_at(line, read, step_x(panel, i), 0.75)));
    for (int i = steps; i >= 0; i--)
        text_add(svg, "%.1f,%.1f ", x_of(panel, step_x(panel, i)),
                 y_of(panel, quantile_at(line, read, step_x(panel, i), 0.25)));
    text_add(svg, "\"/>\n");
}

static double share_within(const struct plot_line *line, double scores)
{
    int within = 0;
    for (int i = 0; i < line->num_runs; i++)
        within += regret_after(&line->runs[i], scores) <= 0.01;
    return within / (double)line->num_runs;
}

static void add_shares(struct text *svg, const struct plot_line *line, const char *colour)
{
    text_add(svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = 0; i <= num_steps(&by_share); i++) {
        double x = step_x(&by_share, i);
        text_add(svg, "%.1f,%.1f ", x_of(&by_share, x), y_of(&by_share, share_within(line, x)));
    }
    text_add(svg, "\"/>\n");
}

static void add_proof_line(struct text *svg, const struct panel *panel, double x)
{
    add_line(svg, "proof", x, panel->top, x, panel->top + panel->height);
}

/* Adds lines for a method with a proof: in the panel of regret against time and, if the method's
 * number of step times is within the range, in that of regret against scores. */
static void add_proof(struct text *svg, const struct proof *proof)
{
    double time_x = x_of(&by_time, proof->core_s);
    add_proof_line(svg, &by_time, time_x);
    add_label(svg, "end", time_x - 5, by_time.top + 16, proof->name);
    if (proof->scores > by_scores.x_high)
        return;
    double scores_x = x_of(&by_scores, proof->scores);
    struct text word = { 0 };
    text_add(&word, "%s: %.0f step times", proof->name, proof->scores);
    add_proof_line(svg, &by_scores, scores_x);
    add_label(svg, "start", scores_x + 5, by_scores.top + by_scores.height - 8, text_get(&word));
    text_release(&word);
}

static void add_legend(struct text *svg, int i, const char *name)
{
    int y = by_scores.top + 8 + 20 * i;
    text_add(svg, "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", LEGEND_LEFT, y,
             colours[i % NUM_COLOURS]);
    add_label(svg, "start", LEGEND_LEFT + 12, y + 4, name);
}

void regret_plot(const char *what, const struct plot_line *lines, int num_lines,
                 const struct proof *proofs, int num_proofs, struct text *svg)
{
    text_add(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" role=\"img\">\n<title>How close methods that draw come to the proved "
        "optimum</title>\n"
        "<style>text{font:13px system-ui,sans-serif;fill:#24292f}.page{fill:#ffffff}"
        ".frame{fill:none;stroke:#8c959f}.grid{stroke:#d8dee4}"
        ".proof{stroke:#57606a;stroke-dasharray:5 4}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}"
        ".frame{stroke:#6e7681}.grid{stroke:#2a3038}.proof{stroke:#9da7b3}}"
        "</style>\n<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n"
        "<text x=\"%d\" y=\"24\" style=\"font-weight:600\">How close chance comes to the proved "
        "optimum: %s, %d seeds</text>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, what, lines[0].num_runs);
    add_axes(svg);
    for (int i = 0; i < num_proofs; i++)
        add_proof(svg, &proofs[i]);
    for (int i = 0; i < num_lines; i++) {
        const char *colour = colours[i % NUM_COLOURS];
        add_band(svg, &by_scores, &lines[i], regret_after, colour);
        add_median(svg, &by_scores, &lines[i], regret_after, colour);
        add_shares(svg, &lines[i], colour);
        add_median(svg, &by_time, &lines[i], regret_at_time, colour);
        add_legend(svg, i, lines[i].name);
    }
    text_add(svg, "</svg>\n");
}
