/* cli/timeline/gantt.h - prints a step by the event engine: its time, and a picture of its stages.
 */
#ifndef CLI_TIMELINE_GANTT_H
#define CLI_TIMELINE_GANTT_H

#include "cli/print/terminal.h"
#include "sim/engine/event_step.h"

/* Shows the step times of the event engine and of the recurrence. */
void show_event_step(const struct terminal *terminal, const struct event_step *step,
                     double recurrence_step_s);

/* Shows the times of steps with random draws. */
void show_drawn_steps(const struct terminal *terminal, const struct drawn_steps *drawn,
                      double recurrence_step_s);

/* Adds a row per stage, with the step from left to right over `columns`. Each column shows the pass
 * that the stage runs at the column's middle and, below it, the chunk when a stage has several. */
void gantt_add(const struct terminal *terminal, const struct timeline *timeline, int columns,
               struct text *out);

/* Prints gantt_add with the window's width and a legend. */
void show_gantt(const struct terminal *terminal, const struct timeline *timeline);

#endif
