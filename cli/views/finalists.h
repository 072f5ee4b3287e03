/* cli/views/finalists.h - the best plans of a search, timed by the event engine. Unlike the
 * search's recurrence, the event engine includes contention, shared links and each stage's
 * waits. */
#ifndef CLI_VIEWS_FINALISTS_H
#define CLI_VIEWS_FINALISTS_H

#include "cli/input/setup.h"
#include "search/search.h"

enum { MOST_FINALISTS = 10 };

struct finalists {
    int count;                     /* number of plans timed, from the top of the ranking */
    double step_s[MOST_FINALISTS]; /* 0: too many instructions to time interactively */
};

/* A plan's step time by the event engine; 0: it has too many events. */
double finalist_step_s(const struct setup *setup, const struct plan *plan);

/* Times the finalists with `jobs` threads. */
struct finalists finalists_judge(const struct setup *setup, const struct search_result *result,
                                 int jobs);

/* Index of the fastest plan by the event engine; -1 unless all were timed. */
int finalists_first(const struct finalists *finalists);

void show_finalists(const struct finalists *finalists);

#endif
