/* cli/input/setup_part.h - functions shared by the parts of setup_load. No other file includes it.
 *
 * Each part sets its members of the setup from an option, else from the plan file (root NULL: no
 * file), else from a default, and notes its assumptions. */
#ifndef CLI_INPUT_SETUP_PART_H
#define CLI_INPUT_SETUP_PART_H

#include "base/json.h"
#include "cli/input/setup.h"

/* Adds a sentence to the assumptions. */
void setup_assume(struct setup *setup, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* cli/input/setup_system.c - cluster, GPU, profile and stack; price and memory of the GPUs. */
bool setup_set_system(const struct options *options, const struct json_file *file, int num_gpus,
                      struct setup *setup, struct err *err);

/* Number of GPUs of --nodes hosts; --gpus, when given, must agree. */
bool setup_count_nodes(const struct options *options, const struct json_file *file, int *num_gpus,
                       struct err *err);

/* cli/input/setup_run.c - sequence, batch and budget of tokens, once the model is known. `of_file`:
 * the plan file provides them. */
bool setup_set_run(const struct options *options, bool of_file, struct setup *setup,
                   struct err *err);

#endif
