/* cli/views/progress_bar.h - a progress bar on the terminal during a search, and Ctrl-C to end the
 * search. */
#ifndef CLI_VIEWS_PROGRESS_BAR_H
#define CLI_VIEWS_PROGRESS_BAR_H

#include "cli/input/options.h"
#include "search/search.h"

struct progress_bar {
    double start_s, shown_s;
    bool is_shown;
};

/* Sets the request's callbacks for progress and interruption; `progress_bar` must outlast the
 * search. */
void progress_bar_begin(struct progress_bar *progress_bar, const struct options *options,
                        struct search_request *request);
void progress_bar_end(const struct progress_bar *progress_bar);

#endif
