/* cli/input/rerun.h - the options that repeat the same question, to paste after "simsearch". */
#ifndef CLI_INPUT_RERUN_H
#define CLI_INPUT_RERUN_H

#include "cli/input/setup.h"

/* "--gpus 8 --model tiny ...": model and system. */
void add_case_options(const struct options *options, const struct setup *setup, struct text *out);

/* " --fix 'tp8' --objective cost": the options of search only; "" when there are none. */
void add_search_options(const struct options *options, struct text *out);

#endif
