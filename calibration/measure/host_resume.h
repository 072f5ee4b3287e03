/* calibration/measure/host_resume.h - the measurements of an interrupted calibration: a line with
 * the grid, then a line of JSON for each measured shape. */
#ifndef CALIBRATION_MEASURE_HOST_RESUME_H
#define CALIBRATION_MEASURE_HOST_RESUME_H

#include "calibration/measure/host_ops.h"

struct host_resume;

/* Opens the file at `path`, or makes it. Cut-off lines, and files of another grid, are ignored.
 * `path` NULL: an empty one that is not kept. NULL with ERR_SYSTEM when the file cannot be written.
 */
struct host_resume *host_resume_open(const char *path, const struct host_shapes *shapes,
                                     struct err *err);
void host_resume_close(struct host_resume *resume); /* accepts NULL */

/* Adds the ops of shape number `shape` if the file has them; their texts are in the arena. */
bool host_resume_take(const struct host_resume *resume, int shape, struct arena *arena,
                      struct host_ops *ops);
/* Writes the ops from `first` on as those of the shape. Only one rank calls it. */
bool host_resume_keep(struct host_resume *resume, int shape, const struct host_ops *ops, int first,
                      struct err *err);

#endif
