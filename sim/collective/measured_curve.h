/* sim/collective/measured_curve.h - measured time of a collective, by message size. */
#ifndef SIM_COLLECTIVE_MEASURED_CURVE_H
#define SIM_COLLECTIVE_MEASURED_CURVE_H

#include "base/field.h"
#include "sim/collective/collective.h"

enum { MAX_CURVES = 64, MAX_CURVE_POINTS = 40 };

/* A further kind of curve besides the collectives: a send and its receive between two ranks. */
enum { CURVE_POINT_TO_POINT = NUM_COLLECTIVES, NUM_CURVE_KINDS };
extern const char *const curve_names[NUM_CURVE_KINDS + 1];

struct curve_point {
    double bytes, time_s;
    double log_bytes, log_s;
};

/* The curve of one collective over groups of one size on one fabric. */
struct curve {
    int collective; /* enum collective, or CURVE_POINT_TO_POINT */
    int num_ranks, num_nodes;
    char fabric[32]; /* the fabric of the links, named as in the cluster's level */
    int num_points;  /* at least one, in ascending order of size */
    struct curve_point points[MAX_CURVE_POINTS];
};

/* Seconds for a message: between two points log time is linear in log size; outside the measured
 * range it is the time of the nearest point. */
double curve_s(const struct curve *curve, double message_bytes);

/* Reads and writes an object of a profile's "collectives". */
bool curve_read(const json_t *object, struct curve *out, struct err *err);
json_t *curve_write(const struct curve *curve);

extern const struct field curve_fields[];
extern const size_t num_curve_fields;

#endif
