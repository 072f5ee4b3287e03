/* cli/views/trace.h - a timeline as the JSON that Perfetto and chrome://tracing show.
 *
 * A process is a pipeline stage, a thread one of its lanes, a slice an instruction that takes time;
 * arrows lead from sends to receives, and a counter follows the activations that a stage holds. */
#ifndef CLI_VIEWS_TRACE_H
#define CLI_VIEWS_TRACE_H

#include "base/err.h"
#include "cli/input/setup.h"
#include "sim/schedule/timeline.h"

/* A stage's peak activations are divided equally: each forward adds a share, the end of its
 * backward removes it. `about` becomes the file's otherData; borrowed. */
bool trace_write(const char *path, const struct timeline *timeline,
                 const struct prediction *prediction, const json_t *about, struct err *err);

/* The same step predicted and measured, one below the other. */
bool trace_write_both(const char *path, const struct timeline *predicted,
                      const struct timeline *measured, const struct prediction *prediction,
                      const json_t *about, struct err *err);

#endif
