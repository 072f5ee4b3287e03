/* sim/cost/kernel.h - measured seconds of one kind of op, by its sizes.
 *
 * Tables are used for devices that the formulas of sim/cost/compute do not describe. A CPU core has
 * no tiles and waves, and its caches make small calls cheaper than their memory traffic. */
#ifndef SIM_COST_KERNEL_H
#define SIM_COST_KERNEL_H

#include "base/err.h"
#include "base/field.h"
#include "models/op.h"

#include <jansson.h>

enum { KERNEL_OPTIMIZER = NUM_OP_KINDS, NUM_KERNEL_KINDS };
enum { NUM_KERNEL_SIZES = 4, MAX_KERNELS = 96, MAX_KERNEL_POINTS = 1024 };
extern const char *const kernel_names[NUM_KERNEL_KINDS + 1]; /* kinds of ops, and "optimizer" */
extern const char *const pass_names[];                       /* by enum op_pass */

/* One measurement. Its sizes are an op's m, n, k and batch. For the optimizer m is the number of
 * parameters that a rank updates, and the other sizes are 1. All values are above 0. */
struct kernel_point {
    double size[NUM_KERNEL_SIZES];
    double time_s;
    double log_size[NUM_KERNEL_SIZES]; /* logarithms to base 2 */
    double rest;                       /* log(measured time / fitted time), from kernel_fit */
};

struct kernel {
    int kind; /* enum op_kind, or KERNEL_OPTIMIZER */
    int pass; /* enum op_pass */
    char variant[16];
    int num_points;              /* at least one */
    struct kernel_point *points; /* owned */
    /* Fitted: log seconds per unit of work = level + slope . (log2 size - middle). */
    double level, slope[NUM_KERNEL_SIZES], middle[NUM_KERNEL_SIZES];
    double low[NUM_KERNEL_SIZES], high[NUM_KERNEL_SIZES]; /* range of the points' log sizes */
};

/* Computes the fitted members of a table from its kind and from the sizes and times of its
 * points. */
void kernel_fit(struct kernel *kernel);

/* The sizes of an op, or of one row block of it; sizes that it does not have are 1. */
void kernel_size_of(const struct op *op, double size[NUM_KERNEL_SIZES]);
bool kernel_sizes_equal(const double a[NUM_KERNEL_SIZES], const double b[NUM_KERNEL_SIZES]);

/* Seconds at a size: the fitted time, corrected by the weighted mean of the points' deviations from
 * their fitted times. Near points weigh most, so at a measured size the result is nearly the
 * measured time. Outside the measured range, the seconds per unit of work are those at the range's
 * edge. */
double kernel_s(const struct kernel *kernel, const double size[NUM_KERNEL_SIZES]);

/* The table for an op: the one with the same variant, else the first with the same kind and pass;
 * NULL: none. */
const struct kernel *kernel_find(const struct kernel *kernels, int num_kernels, int kind, int pass,
                                 const char *variant);

/* Reads and writes an object of a profile's "kernels". */
bool kernel_read(const json_t *object, struct kernel *out, struct err *err);
json_t *kernel_write(const struct kernel *kernel);
void kernel_release(struct kernel *kernel);

extern const struct field kernel_fields[];
extern const size_t num_kernel_fields;

#endif
