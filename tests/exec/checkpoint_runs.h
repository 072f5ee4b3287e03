/* tests/exec/checkpoint_runs.h - runs that save and load checkpoints. */
#ifndef TESTS_EXEC_CHECKPOINT_RUNS_H
#define TESTS_EXEC_CHECKPOINT_RUNS_H

#include "exec/run/checkpoint.h"
#include "tests/exec/parity.h"

/* The folder of a test's checkpoints. Tests use checkpoint_folder_make and checkpoint_folder_remove
 * as set-up and tear-down. */
extern char checkpoint_folder[64];
void checkpoint_folder_make(void);
void checkpoint_folder_remove(void);

/* A run with a learning rate that suits the optimizer; `precision` and `optimizer` are
 * values of the enums of these names. */
struct parity_run checkpoint_run(int precision, int optimizer);

/* A callback for `before` of struct parity_run, which is called before the first step. Loads a
 * checkpoint, which must be undamaged. */
bool checkpoint_load_whole(struct rank *rank, const struct parity_run *run, struct err *err);

#endif
