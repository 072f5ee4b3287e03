/* exec/comm/mesh.h - how processes find each other: every rank's address, and a connection between
 * any two on request.
 *
 * Rank 0 listens at the place's meeting address; the others report their own addresses there and
 * get the table of all. Connections carry the run's token first (exec/comm/greeting.h). One thread.
 */
#ifndef EXEC_COMM_MESH_H
#define EXEC_COMM_MESH_H

#include "exec/comm/comm.h"

struct mesh;

/* Returns when all ranks have met. NULL with ERR_UNAVAILABLE when the place names no meeting
 * address, with ERR_INPUT when rank 0 belongs to another run, else with ERR_SYSTEM; then *is_lost
 * says whether another rank did not arrive or left. place->meeting_fd stays open, for the next mesh
 * of this place. */
struct mesh *mesh_new(const struct comm_options *options, bool *is_lost, struct err *err);
void mesh_free(struct mesh *mesh);

/* Opens one socket to each of `ranks` (-1 for itself), which call it too, with the same number; a
 * number is used once. `fds` has room for num_ranks; the caller closes them. On failure all are -1
 * and none is left open; where = "rank R", the one that did not answer. */
bool mesh_connect(struct mesh *mesh, int number, const int *ranks, int num_ranks, int *fds,
                  struct err *err);

#endif
