/* cli/views/show.h - prints a plan and its prediction. */
#ifndef CLI_VIEWS_SHOW_H
#define CLI_VIEWS_SHOW_H

#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "sim/engine/event_step.h"

/* Version, model, system, batch; then what was assumed. */
void show_header(const struct terminal *terminal, const struct setup *setup);

/* "TP 4+SP - PP 8 - DP 32 (ZeRO-1) - micro-batch 1 x 48 - selective recompute" */
void add_plan_words(const struct terminal *terminal, const struct plan *plan, int num_microbatches,
                    struct text *out);

/* A plan in words, its step time and memory, and the parts of both. */
void show_plan(const struct terminal *terminal, const struct setup *setup, const char *title,
               const struct plan *plan, const struct prediction *prediction, bool all_stages);

/* "simsearch simulate": header, plan, its events unless NULL, what to do next. */
void show_simulation(const struct options *options, const struct setup *setup,
                     const struct prediction *prediction, const struct event_step *events,
                     const struct drawn_steps *drawn);

#endif
