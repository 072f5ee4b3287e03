/* cli/timeline/trace.h - a timeline as the JSON that Perfetto and chrome://tracing show.
 *
 * Each pipeline stage is a process. Each of its lanes (streams for compute, data parallel and each
 * direction of messages) is a thread, and each instruction that takes time is a slice. Arrows lead
 * from sends to receives, and a counter shows the activations of each stage. */
#ifndef CLI_TIMELINE_TRACE_H
#define CLI_TIMELINE_TRACE_H

#include "base/err.h"
#include "cli/input/setup.h"
#include "sim/schedule/timeline.h"

/* The counter divides a stage's peak activations equally over microbatches: each forward adds one
 * share, and the end of its backward removes it. `about` becomes the file's otherData and is
 * borrowed. */
bool trace_write(const char *path, const struct timeline *timeline,
                 const struct prediction *prediction, const json_t *about, struct err *err);

/* Writes the predicted and the measured timeline of a step, one below the other. */
bool trace_write_both(const char *path, const struct timeline *predicted,
                      const struct timeline *measured, const struct prediction *prediction,
                      const json_t *about, struct err *err);

#endif
