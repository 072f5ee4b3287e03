#include "base/arena.h"
#include "cli/score/validation.h"

#include <stdlib.h>
#include <string.h>

static void tally(struct tallies *tallies, const char *text)
{
    for (int i = 0; i < tallies->count; i++)
        if (strcmp(tallies->at[i].text, text) == 0) {
            tallies->at[i].count++;
            return;
        }
    if (tallies->count == tallies->room) {
        tallies->room = tallies->room ? 2 * tallies->room : 16;
        tallies->at = arena_grow(tallies->at, (size_t)tallies->room * sizeof *tallies->at);
    }
    tallies->at[tallies->count++] = (struct tally){ text, 1 };
}

static int compare_tallies(const void *a, const void *b)
{
    const struct tally *x = a;
    const struct tally *y = b;
    return x->count != y->count ? y->count - x->count : strcmp(x->text, y->text);
}

struct tallies validation_assumptions(const struct validation *v)
{
    struct tallies tallies = { 0 };
    for (int i = 0; i < v->rows.count; i++)
        for (int k = 0; k < v->cases[i].num_assumptions && !*v->cases[i].skip; k++)
            tally(&tallies, v->cases[i].assumptions[k]);
    if (tallies.count > 0)
        qsort(tallies.at, (size_t)tallies.count, sizeof *tallies.at, compare_tallies);
    return tallies;
}

struct tallies validation_skips(const struct validation *v)
{
    struct tallies tallies = { 0 };
    for (int i = 0; i < v->rows.count; i++)
        if (*run_skip_reason(&v->cases[i]))
            tally(&tallies, run_skip_reason(&v->cases[i]));
    if (tallies.count > 0)
        qsort(tallies.at, (size_t)tallies.count, sizeof *tallies.at, compare_tallies);
    return tallies;
}
