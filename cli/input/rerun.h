/* cli/input/rerun.h - writes the options that repeat the same request, to be pasted after
 * "simsearch". */
#ifndef CLI_INPUT_RERUN_H
#define CLI_INPUT_RERUN_H

#include "cli/input/setup.h"

/* Adds the options of model and system: "--gpus 8 --model tiny ...". */
void add_case_options(const struct options *options, const struct setup *setup, struct text *out);

/* Adds the options of model and system that the command `export` also has. False: `export` has no
 * options for this kind of training. */
bool add_export_options(const struct options *options, const struct setup *setup, struct text *out);

/* Adds the options of search: " --fix 'tp8' --objective cost"; nothing when there are none. */
void add_search_options(const struct options *options, struct text *out);

#endif
