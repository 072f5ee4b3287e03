/* cli/views/show.h - prints a plan and its prediction. */
#ifndef CLI_VIEWS_SHOW_H
#define CLI_VIEWS_SHOW_H

#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "sim/engine/event_step.h"

/* Prints version, model, system and batch, then the assumptions. */
void show_header(const struct terminal *terminal, const struct setup *setup);

/* Adds a plan in words: "TP 4+SP - PP 8 - DP 32 (ZeRO-1) - micro-batch 1 x 48 - selective
 * recompute". */
void add_plan_words(const struct terminal *terminal, const struct plan *plan, int num_microbatches,
                    struct text *out);

/* Prints a plan in words, its step time and memory, and the parts of both. */
void show_plan(const struct terminal *terminal, const struct setup *setup, const char *title,
               const struct plan *plan, const struct prediction *prediction, bool all_stages);

/* Prints the answer of "simsearch simulate": header, plan, events unless NULL, and a next
 * command. */
void show_simulation(const struct options *options, const struct setup *setup,
                     const struct prediction *prediction, const struct event_step *events,
                     const struct drawn_steps *drawn);

#endif
