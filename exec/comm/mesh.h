/* exec/comm/mesh.h - how processes find each other: every rank's address, and a connection between
 * any two on request.
 *
 * Rank 0 listens at the place's meeting address; the other ranks report their addresses there and
 * get the table of all addresses. Every connection begins with the run's token
 * (exec/comm/greeting.h). Call these functions from one thread. */
#ifndef EXEC_COMM_MESH_H
#define EXEC_COMM_MESH_H

#include "exec/comm/comm.h"

struct mesh;

/* Returns when all ranks have met. NULL with ERR_UNAVAILABLE when the place names no meeting
 * address, with ERR_INPUT when rank 0 belongs to another run, else with ERR_SYSTEM; *is_lost then
 * shows whether another rank did not arrive or left. place->meeting_fd stays open, for the next
 * mesh of this place. */
struct mesh *mesh_new(const struct comm_options *options, bool *is_lost, struct err *err);
void mesh_free(struct mesh *mesh);

/* Opens one socket to each of `ranks` (-1 for this rank). All of them call it with the same number,
 * and each number is used once. `fds` has space for num_ranks sockets, -1 at first, which the
 * caller closes. On failure all sockets are closed and -1; where = "rank R", the rank that did not
 * answer. */
bool mesh_connect(struct mesh *mesh, int number, const int *ranks, int num_ranks, int *fds,
                  struct err *err);

#endif
