/* calibration/measure/host_resume.h - a file with the measurements of an interrupted calibration: a
 * line that names the grid of shapes, then a line of JSON for each measured shape. */
#ifndef CALIBRATION_MEASURE_HOST_RESUME_H
#define CALIBRATION_MEASURE_HOST_RESUME_H

#include "calibration/measure/host_ops.h"

struct host_resume;

/* Opens the file at `path`, or creates it. Incomplete lines, and files for another grid, are
 * ignored. If `path` is NULL, there is no file and nothing is stored. Returns NULL with ERR_SYSTEM
 * if the file cannot be written. */
struct host_resume *host_resume_open(const char *path, const struct host_shapes *shapes,
                                     struct err *err);
void host_resume_close(struct host_resume *resume); /* accepts NULL */

/* Adds the ops of shape number `shape` if the file has them; the ops' names are put in the
 * arena. */
bool host_resume_take(const struct host_resume *resume, int shape, struct arena *arena,
                      struct host_ops *ops);
/* Writes the ops from index `first` on as the shape's ops. Only one rank calls it. */
bool host_resume_keep(struct host_resume *resume, int shape, const struct host_ops *ops, int first,
                      struct err *err);

#endif
