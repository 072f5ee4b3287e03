/* cli/run_log.h - whether a log is of the run that a command line describes. */
#ifndef CLI_RUN_LOG_H
#define CLI_RUN_LOG_H

#include "calibration/learn/train_log.h"
#include "models/model.h"

/* Why the log is not of this model, sequence and batch, by what stands at its head; "": it may be.
 */
const char *run_log_why_another(const struct train_log *log, const struct model *model,
                                struct arena *arena);

#endif
