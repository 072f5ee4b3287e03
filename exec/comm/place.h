/* exec/comm/place.h - this process's rank, the number of ranks, and where they meet.
 *
 * The launcher states it in the environment: our own launcher (exec/launch.h), mpirun
 * (OMPI_COMM_WORLD_*), srun (SLURM_*), or torchrun and compatible launchers (RANK, WORLD_SIZE). */
#ifndef EXEC_COMM_PLACE_H
#define EXEC_COMM_PLACE_H

#include "base/err.h"

enum { PLACE_TOKEN_BYTES = 64 };

struct place {
    const char *launcher; /* "simsearch", "mpirun", "srun", "torchrun"; "" for one rank alone */
    int rank, size;
    int local_rank, local_size; /* among the ranks of this machine */
    char meeting_host[256];     /* where rank 0 listens; "" when the launcher names no place */
    int meeting_port;
    int meeting_fd; /* on rank 0: the socket that already listens, else -1 */
    /* The run's secret: only ranks of the run know it. Zeros after its end. */
    char token[PLACE_TOKEN_BYTES];
};

/* The place of a single rank. */
struct place place_alone(void);

/* Uses the first launcher whose variables are set; place_alone() when none are. The token is
 * SIMSEARCH_TOKEN, which our own launcher draws at random; without it, the run's numbers under srun
 * and torchrun, which others can guess. False with ERR_INPUT, where = the variable, when one is
 * missing, is no number or contradicts another. */
bool place_of_environment(struct place *place, struct err *err);

/* The communicator for processes started this way: "mpi" or "tcp" (exec/comm/comm.h). */
const char *place_comm(const struct place *place);

#endif
