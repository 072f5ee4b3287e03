/* cli/patience.h - a progress bar on the terminal during a search, and Ctrl-C to end the search. */
#ifndef CLI_PATIENCE_H
#define CLI_PATIENCE_H

#include "cli/options.h"
#include "search/search.h"

struct patience {
    double start_s, shown_s;
    bool is_shown;
};

/* Sets the request's callbacks for progress and interruption; `patience` must outlast the search.
 */
void patience_begin(struct patience *patience, const struct options *options,
                    struct search_request *request);
void patience_end(const struct patience *patience);

#endif
