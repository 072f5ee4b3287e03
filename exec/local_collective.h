/* exec/local_collective.h - the calls of exec/comm.h between the threads of one process. */
#ifndef EXEC_LOCAL_COLLECTIVE_H
#define EXEC_LOCAL_COLLECTIVE_H

#include "exec/comm.h"

/* Until the call has run, or its world has failed. Members that call different things fail it. */
void local_collective_run(const struct comm_call *call);

#endif
