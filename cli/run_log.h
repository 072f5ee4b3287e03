/* cli/run_log.h - whether a log belongs to the run that a command line describes. */
#ifndef CLI_RUN_LOG_H
#define CLI_RUN_LOG_H

#include "calibration/learn/train_log.h"
#include "models/model.h"

/* Says why the log belongs to another model, sequence or batch, by the settings at its head. "": it
 * may belong to this one. */
const char *run_log_why_another(const struct train_log *log, const struct model *model,
                                struct arena *arena);

#endif
