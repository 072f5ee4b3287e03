/* Checks, before a fit, which constants the runs determine. */
#include "base/arena.h"
#include "calibration/fit/descent_fit.h"

#include <math.h>
#include <stddef.h>

/* RATES: number of learning rates at which a run with a fading rate is evaluated */
enum { LEAST_STEPS = 30, RATES = 3 };

/* --- runs ---------------------------------------------------------------------------------- */

static bool check_run(const struct loss_run *run, struct err *err)
{
    if (run->num_steps < LEAST_STEPS)
        return err_set(
            err, ERR_INPUT, run->name,
            "expected the losses of %d steps or more; found %d, too few to fit the loss curve",
            LEAST_STEPS, run->num_steps);
    for (int i = 0; i < run->num_steps; i++)
        if (!isfinite(run->losses[i]))
            return err_set(err, ERR_INPUT, run->name, "the loss of step %d is not a number", i + 1);
    if (!isfinite(run->run.noise_factor))
        return err_set(err, ERR_INPUT, run->name,
                       "expected an exchange that reaches the optimum; found one that discards "
                       "parts of the gradients for good");
    double first = loss_run_mean(run, 0, LEAST_STEPS / 10);
    double last = loss_run_mean(run, run->num_steps * 3 / 4, run->num_steps);
    if (last >= first)
        return err_set(err, ERR_INPUT, run->name,
                       "expected a loss that falls, found %.4g in the first steps and %.4g in the "
                       "last: a diverging run determines no constant",
                       first, last);
    return true;
}

/* --- independent constants ----------------------------------------------------------------- */

/* The terms of the loss that remain at the end. Each is a constant times a factor that depends on
 * the learning rate and the number of ranks. */
enum { FLOOR_LEAST, FLOOR_NOISE, FLOOR_MIXING, FLOOR_MEMORY, NUM_FLOORS };
static const enum descent_constant floor_constants[NUM_FLOORS] = { DESCENT_LEAST, DESCENT_NOISE,
                                                                   DESCENT_MIXING, DESCENT_MEMORY };

static void fill_floor(const struct descent_run *run, double rate, double *row)
{
    double apart = rate * rate * run->apart;
    row[FLOOR_LEAST] = 1;
    row[FLOOR_NOISE] = rate * run->noise_factor / run->num_ranks;
    row[FLOOR_MIXING] = run->is_memory ? 0 : apart;
    row[FLOOR_MEMORY] = run->is_memory ? apart : 0;
}

/* Subtracts from column j its projection on the earlier, already orthogonal columns (Gram-Schmidt).
 * Returns its remaining length relative to the original one. */
static double independent_share(double *columns, int num_rows, int j)
{
    double *own = columns + (size_t)j * (size_t)num_rows;
    double before = 0, after = 0;
    for (int i = 0; i < num_rows; i++)
        before += own[i] * own[i];
    for (int k = 0; k < j; k++) {
        const double *other = columns + (size_t)k * (size_t)num_rows;
        double product = 0, square = 0;
        for (int i = 0; i < num_rows; i++) {
            product += own[i] * other[i];
            square += other[i] * other[i];
        }
        for (int i = 0; i < num_rows && square > 0; i++)
            own[i] -= product / square * other[i];
    }
    for (int i = 0; i < num_rows; i++)
        after += own[i] * own[i];
    return before > 0 ? sqrt(after / before) : 1;
}

/* Each run gives one row of the matrix; a run whose learning rate fades gives one row for each of
 * several rates. */
static void fill_columns(const struct descent_request *request, int rows, double *columns)
{
    for (int i = 0; i < rows; i++) {
        const struct loss_run *run = &request->runs[i / RATES];
        double fades = run->run.fades, step = run->num_steps * (1 + i % RATES) / (double)RATES;
        double row[NUM_FLOORS];
        fill_floor(&run->run, fades > 0 ? run->run.rate / (1 + step / fades) : run->run.rate, row);
        row[FLOOR_LEAST] = request->least < 0;
        row[FLOOR_NOISE] *= !request->is_exact;
        for (int j = 0; j < NUM_FLOORS; j++)
            columns[j * rows + i] = row[j];
    }
}

/* The first term of the loss that does not vanish with more steps (floor) and is a linear
 * combination of the earlier such terms; -1: none. */
static int find_dependent(const struct descent_request *request)
{
    static const double least_share = 0.02;
    struct arena arena = { 0 };
    int rows = RATES * request->num_runs, found = -1;
    double *columns = ARENA_ARRAY(&arena, double, (size_t)rows *NUM_FLOORS);
    fill_columns(request, rows, columns);
    for (int j = 0; j < NUM_FLOORS && found < 0; j++)
        if (independent_share(columns, rows, j) < least_share)
            found = j;
    arena_release(&arena);
    return found;
}

static bool check_floors(const struct descent_request *request, struct err *err)
{
    int floor = find_dependent(request);
    return floor < 0 ||
           err_set(err, ERR_INPUT, descent_constant_names[floor_constants[floor]],
                   "cannot be separated from the other constants of the final loss with these "
                   "learning rates and numbers of ranks; add a run with another learning rate or "
                   "number of ranks (and equal samples per rank)%s",
                   request->least < 0 ? ", or --least" : ", or of all-reduce");
}

bool descent_request_check(const struct descent_request *request, struct err *err)
{
    for (int i = 0; i < request->num_runs; i++)
        if (!check_run(&request->runs[i], err))
            return false;
    return check_floors(request, err);
}
