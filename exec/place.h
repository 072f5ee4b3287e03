/* exec/place.h - which rank of how many this process is, and where the ranks meet.
 *
 * Whoever started the ranks says so in the environment: our own launcher (exec/launch.h), mpirun
 * (OMPI_COMM_WORLD_*), srun (SLURM_*), or torchrun and what imitates it (RANK, WORLD_SIZE). */
#ifndef EXEC_PLACE_H
#define EXEC_PLACE_H

#include "base/err.h"

enum { PLACE_TOKEN_BYTES = 64 };

struct place {
    const char *launcher; /* "simsearch", "mpirun", "srun", "torchrun"; "" for one rank alone */
    int rank, size;
    int local_rank, local_size; /* among those of this machine */
    char meeting_host[256];     /* where rank 0 listens; "" when the launcher names no place */
    int meeting_port;
    int meeting_fd; /* of rank 0: the socket that listens already, else -1 */
    /* The run's secret: who does not know it is no rank of the run. Zeros after its end. */
    char token[PLACE_TOKEN_BYTES];
};

/* One rank alone. */
struct place place_alone(void);

/* The first launcher that left its variables; place_alone() when none did. The token is
 * SIMSEARCH_TOKEN, which our own launcher draws at random; without it, the numbers by which srun
 * and torchrun know the run, which others can guess. False with ERR_INPUT, where = the variable,
 * when one is missing, is no number or contradicts another. */
bool place_of_environment(struct place *place, struct err *err);

/* What processes that were started like this can meet by: "mpi" or "tcp" (exec/comm.h). */
const char *place_comm(const struct place *place);

#endif
