/* exec/comm/place.h - this process's rank, the number of ranks, and where they meet.
 *
 * The launcher sets these values in the environment: our own launcher (exec/launch.h), mpirun
 * (OMPI_COMM_WORLD_*), srun (SLURM_*), or torchrun and compatible launchers (RANK, WORLD_SIZE). */
#ifndef EXEC_COMM_PLACE_H
#define EXEC_COMM_PLACE_H

#include "base/err.h"

enum { PLACE_TOKEN_BYTES = 64 };

struct place {
    const char *launcher; /* "simsearch", "mpirun", "srun", "torchrun"; "": a single rank */
    int rank, size;
    int local_rank, local_size; /* rank and number of ranks on this machine */
    char meeting_host[256];     /* where rank 0 listens; "" when the launcher names no place */
    int meeting_port;
    int meeting_fd; /* on rank 0 the socket, if one already listens; else -1 */
    /* The secret of the run, known only to its ranks. Padded with zeros. */
    char token[PLACE_TOKEN_BYTES];
};

/* The place of a single rank. */
struct place place_alone(void);

/* Reads the variables of the launcher that started this process. Each launcher is recognised by a
 * variable that it sets only in its ranks; place.c lists these variables, and the first that is set
 * decides. The result is place_alone() if none is set. The token is SIMSEARCH_TOKEN, which our own
 * launcher draws at random. If it is not set, the token is the job and step number of srun or the
 * run id of torchrun, which others can guess; mpirun needs no token, as its ranks meet through MPI.
 * Returns false with ERR_INPUT, where = the variable, when a variable is missing, is no number
 * or contradicts another one. */
bool place_of_environment(struct place *place, struct err *err);

/* The communicator for this launcher's processes: "mpi" or "tcp" (exec/comm/comm.h). */
const char *place_comm(const struct place *place);

#endif
