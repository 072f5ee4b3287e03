/* cli/views/gantt.h - prints a step by the event engine: its time, and a picture of its stages. */
#ifndef CLI_VIEWS_GANTT_H
#define CLI_VIEWS_GANTT_H

#include "cli/print/terminal.h"
#include "sim/engine/event_step.h"

/* The event engine's step beside the recurrence's. */
void show_event_step(const struct terminal *terminal, const struct event_step *step,
                     double recurrence_step_s);

/* The same for steps with random draws. */
void show_drawn_steps(const struct terminal *terminal, const struct drawn_steps *drawn,
                      double recurrence_step_s);

/* Adds a row per stage, with the step from left to right over `columns`. Each column shows the pass
 * that the stage runs at the column's middle and, below it, the chunk when a stage has several. */
void gantt_add(const struct terminal *terminal, const struct timeline *timeline, int columns,
               struct text *out);

/* gantt_add in the window's columns, with its key. */
void show_gantt(const struct terminal *terminal, const struct timeline *timeline);

#endif
