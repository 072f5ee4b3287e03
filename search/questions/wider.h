/* search/questions/wider.h - a short look beyond the space of a request, around the best plan found
 * in it.
 *
 * What the space leaves out is searched with the best plan's degrees fixed. That proves nothing
 * about the wider space: it shows when searching it is worth the time. */
#ifndef SEARCH_QUESTIONS_WIDER_H
#define SEARCH_QUESTIONS_WIDER_H

#include "search/search.h"

/* A plan that takes at least this share of the time less is worth an option. */
static const double wider_least_gain = 0.03;

struct wider {
    const char *option; /* "--uneven" */
    double gain;        /* share of the best plan's time that it takes less */
    struct scored_plan best;
};
enum { MOST_WIDER = 3 };

/* The options that gain as much, the most first; returns how many. `best` is the answer to the
 * request. Plans are in the arena. */
int search_wider(const struct search_request *request, const struct scored_plan *best,
                 struct arena *arena, struct wider out[MOST_WIDER]);

#endif
