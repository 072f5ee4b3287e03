/* cli/patience.h - while a search lasts: a bar on a terminal, and Ctrl-C that ends it early. */
#ifndef CLI_PATIENCE_H
#define CLI_PATIENCE_H

#include "cli/options.h"
#include "search/search.h"

struct patience {
    double start_s, shown_s;
    bool is_shown;
};

/* The request learns whom to tell and whom to ask; `patience` must outlast the search. */
void patience_begin(struct patience *patience, const struct options *options,
                    struct search_request *request);
void patience_end(const struct patience *patience);

#endif
