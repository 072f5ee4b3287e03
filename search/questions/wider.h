/* search/questions/wider.h - a short search outside the space of a request, near the best plan
 * found inside it.
 *
 * Options that the space leaves out (such as --uneven) are searched with the best plan's degrees
 * fixed. The result proves nothing about the wider space; it shows whether searching it is worth
 * the time. */
#ifndef SEARCH_QUESTIONS_WIDER_H
#define SEARCH_QUESTIONS_WIDER_H

#include "search/search.h"

/* An option is suggested when its plan is faster by at least this fraction of the time. */
static const double wider_least_gain = 0.03;

struct wider {
    const char *option; /* "--uneven" */
    double gain;        /* fraction of the best plan's time that the option saves */
    struct scored_plan best;
};
enum { MOST_WIDER = 3 };

/* Finds the options that save at least wider_least_gain, largest gain first, and returns their
 * number. `best` is the answer to the request. Plans are in the arena. */
int search_wider(const struct search_request *request, const struct scored_plan *best,
                 struct arena *arena, struct wider out[MOST_WIDER]);

#endif
