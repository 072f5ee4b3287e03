/* calibration/link_speed.h - how fast a network is by the words of a measured row.
 *
 * "400 Gbps per node", "4x 100 Gb/s RoCE per node", "RDMA 400Gb/s per GPU": any number of Gb/s or
 * Tb/s, of one card where a number of cards stands before it, and whose it is. */
#ifndef CALIBRATION_LINK_SPEED_H
#define CALIBRATION_LINK_SPEED_H

#include "sim/cost/hardware.h"

struct link_speed {
    double bytes_per_s; /* of all cards together, one direction; 0: the words do not say */
    bool is_of_node;    /* else of a GPU */
    int cards;          /* 0: the words do not say */
};

struct link_speed link_speed_read(const char *words);

/* Whether the levels between nodes of so many GPUs have another speed. */
bool link_speed_differs(const struct link_speed *speed, const struct cluster *cluster,
                        int node_gpus);

/* Gives the levels between nodes that speed: by as many cards as the words say, else as the
 * cluster has. What rings reach of a card stays the same share. */
void link_speed_set(const struct link_speed *speed, struct cluster *cluster, int node_gpus);

/* The share of one GPU. */
double link_speed_of_gpu(const struct link_speed *speed, int node_gpus);

#endif
