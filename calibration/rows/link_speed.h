/* calibration/rows/link_speed.h - reads a network's speed from the words of a measured row.
 *
 * Examples are "400 Gbps per node", "4x 100 Gb/s RoCE per node" and "RDMA 400Gb/s per GPU". The
 * speed is a number of Gb/s or Tb/s per node or per GPU. If a number of network cards precedes it,
 * as in "4x 100", the node or GPU has that many cards of this speed. */
#ifndef CALIBRATION_ROWS_LINK_SPEED_H
#define CALIBRATION_ROWS_LINK_SPEED_H

#include "sim/cost/hardware.h"

struct link_speed {
    double bytes_per_s; /* all cards together, one direction; 0: not stated */
    bool is_of_node;    /* per node; false: per GPU */
    int cards;          /* 0: not stated */
};

struct link_speed link_speed_read(const char *words);

/* Whether the speed differs from that of the cluster's levels between nodes of `node_gpus` GPUs. */
bool link_speed_differs(const struct link_speed *speed, const struct cluster *cluster,
                        int node_gpus);

/* Sets the speed of the levels between nodes, with the stated number of cards or else the cluster's
 * number. The share of a card's speed that rings reach is unchanged. */
void link_speed_set(const struct link_speed *speed, struct cluster *cluster, int node_gpus);

/* The bandwidth per GPU. */
double link_speed_of_gpu(const struct link_speed *speed, int node_gpus);

#endif
