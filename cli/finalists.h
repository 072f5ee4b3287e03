/* cli/finalists.h - the best plans of a search, timed again by the event engine: contention,
 * shared wires and waits of each stage, which the search's recurrence leaves out. */
#ifndef CLI_FINALISTS_H
#define CLI_FINALISTS_H

#include "cli/setup.h"
#include "search/search.h"

enum { MOST_FINALISTS = 10 };

struct finalists {
    int count;                     /* the first of the ranking */
    double step_s[MOST_FINALISTS]; /* 0: too many instructions to run while somebody waits */
};

/* A plan's step, event by event; 0: it has too many events. */
double finalist_step_s(const struct setup *setup, const struct plan *plan);

/* By `jobs` threads. */
struct finalists finalists_judge(const struct setup *setup, const struct search_result *result,
                                 int jobs);

/* Index of the fastest by the event engine; -1 when it has not run them all. */
int finalists_first(const struct finalists *finalists);

void show_finalists(const struct finalists *finalists);

#endif
