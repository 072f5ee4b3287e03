#include "base/length.h"
#include "cli/score/validation.h"

#include <math.h>
#include <string.h>

/* A picture with two panels: predicted against measured time on logarithmic axes, and the error
 * below. Each source is one path of round dots, so that the file is small even for thousands of
 * runs. */

enum { WIDTH = 960, LEFT = 72, PLOT_WIDTH = 660, TOP = 56, TALL = 400, LOW_TOP = 500, LOW = 170 };
enum { HEIGHT = 730, LEGEND_LEFT = 756, LEGEND_STEP = 20 };
/* range of the lower panel; larger errors are drawn at its edge */
static const double most_error = 0.4;

/* Colours that most readers can tell apart on white and on near-black (after Okabe and Ito
 * 2008). */
static const char *const colours[] = { "#0072b2", "#e69f00", "#009e73", "#d55e00",
                                       "#cc79a7", "#56b4e9", "#8c6bb1", "#a6761d",
                                       "#6a9f00", "#e7298a", "#00a5a5", "#7f8c9a" };
enum { NUM_COLOURS = LENGTH(colours) };

/* All points lie between 10^low and 10^high seconds. */
struct range {
    int low, high;
};

static bool is_shown(const struct validation *v, int row)
{
    return !v->cases[row].is_fitted;
}

static struct range find_range(const struct validation *v)
{
    double low = HUGE_VAL;
    double high = -HUGE_VAL;
    for (int i = 0; i < v->scores.num_scored; i++) {
        int row = v->scores.worst[i];
        double measured = log10(run_measured_s(&v->rows.at[row]));
        double predicted = log10(v->predictions[row].step_s);
        if (!is_shown(v, row))
            continue;
        low = fmin(low, fmin(measured, predicted));
        high = fmax(high, fmax(measured, predicted));
    }
    if (!(low <= high))
        return (struct range){ -1, 2 };
    return (struct range){ (int)floor(low), (int)floor(high) + 1 };
}

static double x_of(const struct range *range, double time_s)
{
    return LEFT + PLOT_WIDTH * (log10(time_s) - range->low) / (range->high - range->low);
}

static double y_of(const struct range *range, double time_s)
{
    return TOP + TALL - TALL * (log10(time_s) - range->low) / (range->high - range->low);
}

static double y_of_error(double error)
{
    double held = fmax(-most_error, fmin(most_error, error));
    return LOW_TOP + LOW / 2.0 * (1 - held / most_error);
}

static void add_line(struct text *svg, const char *class, double x1, double y1, double x2,
                     double y2)
{
    text_add(svg, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
             x1, y1, x2, y2);
}

static void add_label(struct text *svg, const char *anchor, double x, double y, const char *word)
{
    text_add(svg, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", anchor, x, y, word);
}

/* Escapes text for SVG, as names of sources come from files. */
static void add_escaped(struct text *out, const char *word)
{
    for (; *word; word++) {
        const char *entity = *word == '<' ? "&lt;" : *word == '&' ? "&amp;" : NULL;
        if (entity)
            text_add(out, "%s", entity);
        else
            text_add(out, "%c", *word);
    }
}

static void add_frame(struct text *svg, int top, int height)
{
    text_add(svg, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
             top, PLOT_WIDTH, height);
}

static void add_decade(struct text *svg, const struct range *range, int power)
{
    struct text word = { 0 };
    double time_s = pow(10, power);
    double x = x_of(range, time_s);
    double y = y_of(range, time_s);
    if (power < 0)
        text_add(&word, "%.0f ms", 1000 * time_s);
    else
        text_add(&word, "%.0f s", time_s);
    add_line(svg, "grid", x, TOP, x, TOP + TALL);
    add_line(svg, "grid", x, LOW_TOP, x, LOW_TOP + LOW);
    add_line(svg, "grid", LEFT, y, LEFT + PLOT_WIDTH, y);
    add_label(svg, "end", LEFT - 8, y + 4, text_get(&word));
    add_label(svg, "middle", x, LOW_TOP + LOW + 18, text_get(&word));
    text_release(&word);
}

/* Adds the line predicted = factor x measured, and its level in the lower panel. */
static void add_guide(struct text *svg, const struct range *range, const char *class, double factor)
{
    double low = pow(10, range->low);
    double high = pow(10, range->high);
    double y = y_of_error(log(factor));
    add_line(svg, class, x_of(range, low * fmax(1, 1 / factor)), y_of(range, low * fmax(1, factor)),
             x_of(range, high / fmax(1, factor)), y_of(range, high * fmin(1, factor)));
    add_line(svg, class, LEFT, y, LEFT + PLOT_WIDTH, y);
}

static void add_axes(struct text *svg, const struct range *range)
{
    add_frame(svg, TOP, TALL);
    add_frame(svg, LOW_TOP, LOW);
    for (int power = range->low; power <= range->high; power++)
        add_decade(svg, range, power);
    for (int percent = -40; percent <= 40; percent += 20) {
        struct text word = { 0 };
        text_add(&word, percent ? "%+d %%" : "%d", percent);
        add_label(svg, "end", LEFT - 8, y_of_error(percent / 100.0) + 4, text_get(&word));
        text_release(&word);
    }
    add_guide(svg, range, "guide", 1.1);
    add_guide(svg, range, "guide", 1 / 1.1);
    add_guide(svg, range, "equal", 1);
    add_label(svg, "start", LEFT, TOP - 8, "predicted step time; dashed: 10 % off");
    add_label(svg, "start", LEFT, LOW_TOP - 8,
              "log(predicted / measured); beyond 40 % on the edge");
    add_label(svg, "middle", LEFT + PLOT_WIDTH / 2.0, HEIGHT - 14, "measured step time");
}

static void add_point(struct text *svg, double x, double y)
{
    text_add(svg, "M%.1f %.1fh0", x, y);
}

static int shown_groups(const struct validation *v, int source)
{
    return v->scores.sources[source].kind[SCORE_TIME].not_fitted.groups;
}

/* A source's colour. Sources without a held-out run are not drawn and take no colour. */
static const char *colour_of(const struct validation *v, int source)
{
    int earlier = 0;
    for (int i = 0; i < source; i++)
        earlier += shown_groups(v, i) > 0;
    return colours[earlier % NUM_COLOURS];
}

/* Adds the dots of one source in both panels. */
static void add_dots(struct text *svg, const struct validation *v, const struct range *range,
                     int source, double radius)
{
    const char *name = v->scores.sources[source].source;
    text_add(svg, "<path stroke=\"%s\" stroke-width=\"%.1f\" d=\"", colour_of(v, source),
             2 * radius);
    for (int i = 0; i < v->scores.num_scored; i++) {
        int row = v->scores.worst[i];
        double measured_s = run_measured_s(&v->rows.at[row]);
        if (!is_shown(v, row) || strcmp(v->rows.at[row].source_key, name) != 0)
            continue;
        double x = x_of(range, measured_s);
        add_point(svg, x, y_of(range, v->predictions[row].step_s));
        add_point(svg, x, y_of_error(run_error(&v->cases[row], &v->predictions[row])));
    }
    text_add(svg, "\"/>\n");
}

/* Draws sources with many runs first, so that their dots do not cover those of small sources. */
static void add_sources(struct text *svg, const struct validation *v, const struct range *range)
{
    enum { MANY = 300 };
    text_add(svg, "<g fill=\"none\" stroke-linecap=\"round\">\n");
    for (int i = 0; i < v->scores.num_sources; i++)
        if (shown_groups(v, i) >= MANY)
            add_dots(svg, v, range, i, 1.3);
    for (int i = 0; i < v->scores.num_sources; i++)
        if (shown_groups(v, i) > 0 && shown_groups(v, i) < MANY)
            add_dots(svg, v, range, i, 2.4);
    text_add(svg, "</g>\n");
}

static void add_legend(struct text *svg, const struct validation *v)
{
    int y = TOP + 8;
    for (int i = 0; i < v->scores.num_sources; i++) {
        if (shown_groups(v, i) == 0)
            continue;
        text_add(svg, "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", LEGEND_LEFT, y,
                 colour_of(v, i));
        text_add(svg, "<text x=\"%d\" y=\"%d\">", LEGEND_LEFT + 12, y + 4);
        add_escaped(svg, v->scores.sources[i].source);
        text_add(svg, " (%d)</text>\n", shown_groups(v, i));
        y += LEGEND_STEP;
    }
}

void scatter_draw(const struct validation *v, struct text *svg)
{
    struct range range = find_range(v);
    text_add(svg,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\">\n"
             "<title>Predicted against measured step times of held-out runs</title>\n"
             "<style>text{font:13px system-ui,sans-serif;fill:#24292f}.page{fill:#ffffff}"
             ".frame{fill:none;stroke:#8c959f}.grid{stroke:#d8dee4}"
             ".equal{stroke:#57606a}.guide{stroke:#57606a;stroke-dasharray:5 4}"
             "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}"
             ".frame{stroke:#6e7681}.grid{stroke:#2a3038}.equal,.guide{stroke:#9da7b3}}"
             "</style>\n<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n",
             WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    text_add(svg,
             "<text x=\"%d\" y=\"24\" style=\"font-weight:600\">%d held-out training runs: "
             "predicted against measured step time</text>\n",
             LEFT, v->scores.all.not_fitted.groups);
    add_axes(svg, &range);
    add_sources(svg, v, &range);
    add_legend(svg, v);
    text_add(svg, "</svg>\n");
}
