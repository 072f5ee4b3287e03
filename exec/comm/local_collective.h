/* exec/comm/local_collective.h - the calls of exec/comm/comm.h between the threads of one
 * process. */
#ifndef EXEC_COMM_LOCAL_COLLECTIVE_H
#define EXEC_COMM_LOCAL_COLLECTIVE_H

#include "exec/comm/comm.h"

/* Returns when the call has run, or when the world (all ranks) has failed. The call fails if
 * members make different calls. */
void local_collective_run(const struct comm_call *call);

#endif
