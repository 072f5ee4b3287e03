/* Shows a summary of a search in one line. */
#include "cli/views/searched.h"

#include "cli/print/scale.h"

#include "base/units.h"

#include <stdio.h>

void add_count(struct text *out, double count)
{
    char digits[32];
    if (count >= 1e15) { /* numbers of divisions of layers can have thirty digits */
        text_add(out, "%.2e", count);
        return;
    }
    int length = snprintf(digits, sizeof digits, "%.0f", count);
    for (int i = 0; i < length; i++)
        text_add(out, "%s%c", i > 0 && (length - i) % 3 == 0 && length > 4 ? " " : "", digits[i]);
}

/* Adds the three most frequent reasons: "memory 36 144, tensor_heads 12". */
static void add_exclusions(struct text *out, const struct search_result *result)
{
    for (int i = 0; i < result->num_exclusions && i < 3; i++) {
        text_add(out, "%s%s ", i > 0 ? ", " : " (", result->exclusions[i].rule);
        add_count(out, result->exclusions[i].count);
    }
    if (result->num_exclusions > 0)
        text_add(out, "%s)", result->num_exclusions > 3 ? " ..." : "");
}

void show_searched(const struct search_result *result)
{
    struct text line = { 0 };
    char elapsed[32];
    units_show(result->elapsed_s, QUANTITY_SECONDS, elapsed, sizeof elapsed);
    text_add(&line, "searched ");
    add_count(&line, result->candidates);
    text_add(&line, " plans in %s (%s): ", elapsed, result->method);
    add_count(&line, result->evaluated);
    text_add(&line, " timed, ");
    if (result->bounded > 0) {
        add_count(&line, result->bounded);
        text_add(&line, " ruled out by a bound, ");
    }
    add_count(&line, result->infeasible);
    text_add(&line, " not feasible");
    add_exclusions(&line, result);
    printf("%s\n", text_get(&line));
    text_release(&line);
}

/* Adds by how much a plan that was not examined may be faster than the best plan found. */
static void add_gap(struct text *out, const struct search_result *result)
{
    if (search_gap(result) < 1)
        text_add(out, "; no plan is more than %.1f %% faster", 100 * search_gap(result));
}

struct among_text {
    char text[80];
};

/* The set of plans that the proof covers, in words. */
static struct among_text among_words(const struct search_result *result)
{
    struct among_text words = { "" };
    if (result->oom_risk > 0 && result->oom_risk < 0.5)
        snprintf(words.text, sizeof words.text, "; only plans with P(out of memory) <= %s",
                 risk_words(result->oom_risk).text);
    return words;
}

static void add_proof(struct text *out, const struct search_result *result)
{
    const char *ended = result->was_interrupted ? "INTERRUPTED"
                        : result->timed_out     ? "TIME LIMIT"
                                                : NULL;
    struct among_text among = among_words(result);
    if (ended)
        text_add(out, "%s: this is the best plan found so far; not all of the space was searched",
                 ended);
    else if (result->proved_optimal)
        text_add(out, "proved the best of the searched space: %s%s", result->space_name,
                 among.text);
    else
        text_add(out, "not proved the best of the searched space: %s%s", result->space_name,
                 among.text);
    if (!result->proved_optimal)
        add_gap(out, result);
}

void show_proof(const struct search_result *result)
{
    struct text line = { 0 };
    add_proof(&line, result);
    printf("%s\n", text_get(&line));
    text_release(&line);
    if (result->leaves_out && *result->leaves_out)
        printf("         this space leaves out %s\n", result->leaves_out);
}
