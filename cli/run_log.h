/* cli/run_log.h - checks that a log belongs to the run of a command line. */
#ifndef CLI_RUN_LOG_H
#define CLI_RUN_LOG_H

#include "calibration/learn/train_log.h"
#include "models/model.h"

/* Compares the settings at the log's head with the model's layers, hidden size, sequence length and
 * batch, and returns the first difference; "": none. */
const char *run_log_why_another(const struct train_log *log, const struct model *model,
                                struct arena *arena);

#endif
