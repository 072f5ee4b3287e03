/* exec/mesh.h - how processes find each other: every rank's address, and a connection between any
 * two on request.
 *
 * Rank 0 listens at the place's meeting; the others report there where they listen, and get the
 * table of all. Connections carry the run's token first (exec/greeting.h). One thread. */
#ifndef EXEC_MESH_H
#define EXEC_MESH_H

#include "exec/comm.h"

struct mesh;

/* Returns when all ranks have met. NULL with ERR_UNAVAILABLE when the place names no meeting,
 * ERR_INPUT when rank 0 is of another run, else with ERR_SYSTEM; then *is_lost tells whether the
 * cause is another rank that did not come or left. place->meeting_fd stays open, for the next mesh
 * of this place. */
struct mesh *mesh_new(const struct comm_options *options, bool *is_lost, struct err *err);
void mesh_free(struct mesh *mesh);

/* One socket to each of `ranks` but oneself (-1 there), which call it too, with the same number;
 * a number is used once. `fds` has room for num_ranks, the caller closes them. On failure all
 * are -1 and none is left open; where = "rank R" of the one that did not answer. */
bool mesh_connect(struct mesh *mesh, int number, const int *ranks, int num_ranks, int *fds,
                  struct err *err);

#endif
