/* cli/rerun.h - options that ask the same again, to be pasted behind "simsearch". */
#ifndef CLI_RERUN_H
#define CLI_RERUN_H

#include "cli/setup.h"

/* "--gpus 8 --model tiny ...": model and system. */
void add_case_options(const struct options *options, const struct setup *setup, struct text *out);

/* " --fix 'tp8' --objective cost": what only a search is told; "" when it was told nothing. */
void add_search_options(const struct options *options, struct text *out);

#endif
