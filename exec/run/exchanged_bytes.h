/* exec/run/exchanged_bytes.h - how much a rank exchanged with its data peers. */
#ifndef EXEC_RUN_EXCHANGED_BYTES_H
#define EXEC_RUN_EXCHANGED_BYTES_H

struct rank;

/* Bytes of all steps so far: sent by this rank to its data peers (negative: the communicator does
 * not count), and the planned bytes of the whole data group, which only one of its ranks
 * reports. */
struct exchanged_bytes {
    double sent, planned;
};
struct exchanged_bytes rank_exchanged_bytes(const struct rank *rank);

#endif
