/* Finds the constants that explain the errors of predictions. A row is one measured run; a source
 * is the publication that it comes from. */
#include "calibration/fit/diagnosis.h"

#include "calibration/fit/constant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative step of the numerical derivatives: large compared with rounding, small compared with the
 * errors. */
static const double relative_step = 0.01;
/* log 3: an error of a constant by more than a factor of three is not plausible. */
static const double most_change = 1.0986122886681098;
/* Constants with a smaller sensitivity are ignored: their errors can hardly be identified. */
static const double least_sensitivity = 0.01;
/* Penalty on the size of the change, in mean error, so that the smaller of two equally good changes
 * is preferred. */
static const double change_weight = 0.02;

enum { MOST_CONSTANTS = 96, KEY_SIZE = 48 };

/* --- all constants ------------------------------------------------------------------------- */

struct constants {
    struct constant at[MOST_CONSTANTS];
    char key[MOST_CONSTANTS][KEY_SIZE];
    int count;
};

/* Adds a constant. When the diagnosis changes it, the change applies to all systems at once,
 * although many files have a constant of this name. */
static void add_constant(struct constants *out, const char *folder, const char *prefix,
                         const struct field *field)
{
    struct err err = { 0 };
    bool is_number = field->kind == FIELD_NUMBER || field->kind == FIELD_QUANTITY;
    if (!is_number || out->count == MOST_CONSTANTS || strcmp(field->name, "error_log") == 0)
        return;
    snprintf(out->key[out->count], KEY_SIZE, "%s%s", prefix, field->name);
    if (constant_find(folder, out->key[out->count], &out->at[out->count], &err))
        out->count++;
}

static void list_constants(struct constants *out)
{
    out->count = 0;
    for (size_t i = 0; i < num_profile_fields; i++)
        add_constant(out, "profiles/", "", &profile_fields[i]);
    for (int kernel = ATTENTION_FLASH1; kernel < NUM_ATTENTION_KERNELS; kernel++) {
        char prefix[KEY_SIZE];
        snprintf(prefix, sizeof prefix, "attention.%s.", attention_names[kernel]);
        for (size_t i = 0; i < num_attention_fields; i++)
            add_constant(out, "profiles/", prefix, &attention_fields[i]);
    }
    for (size_t i = 0; i < num_stack_fields; i++)
        add_constant(out, "stacks/", "", &stack_fields[i]);
}

/* --- sensitivities ------------------------------------------------------------------------- */

/* The scored rows and their data; per-constant arrays have row k of constant c at [c * count +
 * k]. */
struct evidence {
    struct constants constants;
    struct run_case *cases;
    struct run_prediction *predictions;
    int *row; /* index of each row in the caller's cases */
    double *error, *sensitivity;
    int count;
    struct system **systems; /* each system once */
    int num_systems;
    double *kept; /* original value of the changed constant, per system */
    int *order;   /* scratch space of `count` entries */
    int *chosen;
    double *errors, *slopes;
    const struct run_row **rows;
};

static int compare_pointers(const void *a, const void *b)
{
    const struct system *x = *(struct system *const *)a;
    const struct system *y = *(struct system *const *)b;
    return (x > y) - (x < y);
}

static void list_systems(struct evidence *e)
{
    int n = 0;
    for (int i = 0; i < e->count; i++)
        e->systems[i] = e->cases[i].system;
    qsort(e->systems, (size_t)e->count, sizeof(void *), compare_pointers);
    for (int i = 0; i < e->count; i++)
        if (n == 0 || e->systems[n - 1] != e->systems[i])
            e->systems[n++] = e->systems[i];
    e->num_systems = n;
}

static void measure_constant(struct evidence *e, int index, int jobs)
{
    const struct constant *constant = &e->constants.at[index];
    double *slope = &e->sensitivity[(size_t)index * (size_t)e->count];
    for (int i = 0; i < e->num_systems; i++) {
        e->kept[i] = constant_get(constant, e->systems[i]);
        constant_set(constant, e->systems[i], e->kept[i] * (1 + relative_step));
    }
    runs_predict(e->cases, e->count, jobs, e->predictions);
    for (int k = 0; k < e->count; k++)
        slope[k] = log(e->predictions[k].step_s / run_measured_s(e->cases[k].row)) - e->error[k];
    for (int k = 0; k < e->count; k++)
        slope[k] /= log(1 + relative_step);
    for (int i = 0; i < e->num_systems; i++)
        constant_set(constant, e->systems[i], e->kept[i]);
}

static void gather(struct evidence *e, const struct run_case *cases,
                   const struct run_prediction *predictions, const struct scores *scores, int jobs,
                   struct arena *arena)
{
    size_t n = (size_t)scores->num_scored;
    list_constants(&e->constants);
    e->count = scores->num_scored;
    e->cases = ARENA_ARRAY(arena, struct run_case, n);
    e->predictions = ARENA_ARRAY(arena, struct run_prediction, n);
    e->row = ARENA_ARRAY(arena, int, n);
    e->error = ARENA_ARRAY(arena, double, n);
    e->sensitivity = ARENA_ARRAY(arena, double, n *(size_t)e->constants.count);
    e->systems = ARENA_ARRAY(arena, struct system *, n);
    e->kept = ARENA_ARRAY(arena, double, n);
    e->order = ARENA_ARRAY(arena, int, n);
    e->chosen = ARENA_ARRAY(arena, int, n);
    e->errors = ARENA_ARRAY(arena, double, n);
    e->slopes = ARENA_ARRAY(arena, double, n);
    e->rows = ARENA_ARRAY(arena, const struct run_row *, n);
    for (int k = 0; k < e->count; k++) {
        e->row[k] = scores->worst[k];
        e->cases[k] = cases[e->row[k]];
        e->error[k] = run_error(&cases[e->row[k]], &predictions[e->row[k]]);
    }
    list_systems(e);
    for (int i = 0; i < e->constants.count; i++)
        measure_constant(e, i, jobs);
}

/* --- explanations -------------------------------------------------------------------------- */

double explain_errors(const double *errors, const double *sensitivities, int n, double most,
                      int *order)
{
    /* The sum is convex and piecewise linear. Its slope rises by 2 |s| at each -e/s; these points
     * are sorted here. */
    int count = 0;
    double below = 0;
    double half = 0;
    for (int i = 0; i < n; i++) {
        if (sensitivities[i] == 0)
            continue;
        double corner = -errors[i] / sensitivities[i];
        int at = count++;
        for (; at > 0 && -errors[order[at - 1]] / sensitivities[order[at - 1]] > corner; at--)
            order[at] = order[at - 1];
        order[at] = i;
        half += fabs(sensitivities[i]) / 2;
    }
    for (int i = 0; i < count; i++) {
        below += fabs(sensitivities[order[i]]);
        if (below >= half)
            return fmax(-most, fmin(most, -errors[order[i]] / sensitivities[order[i]]));
    }
    return 0;
}

/* The change, limited so that in all systems the value stays within the bounds that the field table
 * states for its key. */
static double within_bounds(const struct evidence *e, const struct constant *constant, int n,
                            double change)
{
    const struct field *field = &constant->field;
    for (int i = 0; i < n && field->max > field->min; i++) {
        double value = constant_get(constant, e->cases[e->chosen[i]].system);
        if (value <= 0)
            continue;
        if (field->min > 0)
            change = fmax(change, fmin(0, log(field->min / value)));
        change = fmin(change, fmax(0, log(field->max / value)));
    }
    return change;
}

/* The rows chosen for one explanation. */
struct question {
    int n;
    int focus; /* the first `focus` rows are to be explained; the others must not get worse */
};

static double weight_of(const struct question *q, int i)
{
    bool has_rest = q->focus < q->n;
    if (i < q->focus)
        return (has_rest ? 0.5 : 1.0) / q->focus;
    return 0.5 / (q->n - q->focus);
}

static struct suspect suspect_of(struct evidence *e, int index, const struct question *q)
{
    const struct constant *constant = &e->constants.at[index];
    const double *sensitivity = &e->sensitivity[(size_t)index * (size_t)e->count];
    struct suspect out = { .is_of_stack = constant->is_of_stack };
    for (int i = 0; i < q->n; i++) {
        e->slopes[i] = weight_of(q, i) * sensitivity[e->chosen[i]];
        e->errors[i] = weight_of(q, i) * e->error[e->chosen[i]];
    }
    out.change = explain_errors(e->errors, e->slopes, q->n, most_change, e->order);
    out.change = within_bounds(e, constant, q->n, out.change);
    for (int i = 0; i < q->n; i++)
        out.cost += fabs(e->errors[i] + e->slopes[i] * out.change);
    out.cost += change_weight * fabs(out.change);
    for (int i = 0; i < q->focus; i++) {
        int k = e->chosen[i];
        out.sensitivity += sensitivity[k] / q->focus;
        out.left += fabs(e->error[k] + sensitivity[k] * out.change) / q->focus;
    }
    return out;
}

static void keep_suspect(struct diagnosis *out, const struct suspect *suspect)
{
    int at = out->num_suspects;
    for (; at > 0 && suspect->cost < out->suspects[at - 1].cost; at--)
        if (at < NUM_SUSPECTS)
            out->suspects[at] = out->suspects[at - 1];
    if (at == NUM_SUSPECTS)
        return;
    out->suspects[at] = *suspect;
    out->num_suspects += out->num_suspects < NUM_SUSPECTS;
}

static void add_shares(double *share, const struct run_prediction *p, double weight)
{
    for (int part = 0; part < num_time_parts && part < MOST_TIME_PARTS; part++)
        share[part] += weight * time_part_s(&p->time, part) / p->step_s;
}

static void diagnose(struct evidence *e, const struct question *q,
                     const struct run_prediction *predictions, struct arena *arena,
                     struct diagnosis *out)
{
    out->groups = q->focus;
    for (int i = 0; i < q->n; i++) {
        const struct run_prediction *p = &predictions[e->row[e->chosen[i]]];
        if (i < q->focus)
            add_shares(out->share, p, 1.0 / q->focus);
        if (q->focus < q->n)
            add_shares(out->usual, p, 1.0 / q->n);
        e->errors[i] = e->error[e->chosen[i]];
    }
    struct score score = score_errors(e->errors, q->focus);
    out->bias = score.bias;
    out->mean = score.mean;
    for (int i = 0; i < e->constants.count; i++) {
        struct suspect suspect = suspect_of(e, i, q);
        if (fabs(suspect.sensitivity) < least_sensitivity || suspect.change == 0)
            continue;
        suspect.constant = arena_text(arena, e->constants.key[i]);
        keep_suspect(out, &suspect);
    }
}

/* Appends the rows of a source, except row `but`, from index n on; returns the new number of
 * rows. */
static int choose(struct evidence *e, int n, const char *source, bool fitted, int but)
{
    for (int k = 0; k < e->count; k++)
        if (k != but && e->cases[k].is_fitted == fitted &&
            strcmp(e->cases[k].row->source_key, source) == 0)
            e->chosen[n++] = k;
    return n;
}

static struct diagnosis diagnose_source(struct evidence *e, const char *source,
                                        const struct run_prediction *predictions,
                                        struct arena *arena)
{
    struct diagnosis out = { .source = source, .row = -1 };
    int n = choose(e, 0, source, false, -1);
    if (n == 0)
        n = choose(e, 0, source, true, -1);
    struct question q = { n, n };
    if (n > 0)
        diagnose(e, &q, predictions, arena, &out);
    for (int i = 0; i < n; i++) {
        e->rows[i] = e->cases[e->chosen[i]].row;
        e->errors[i] = e->error[e->chosen[i]];
    }
    out.traits = traits_find(e->rows, e->errors, n);
    return out;
}

static struct diagnosis diagnose_row(struct evidence *e, int k,
                                     const struct run_prediction *predictions, struct arena *arena)
{
    const char *source = e->cases[k].row->source_key;
    struct diagnosis out = { .source = source, .row = e->row[k] };
    e->chosen[0] = k;
    int n = choose(e, choose(e, 1, source, false, k), source, true, k);
    struct question q = { n, 1 };
    diagnose(e, &q, predictions, arena, &out);
    return out;
}

struct diagnoses runs_diagnose(const struct run_case *cases,
                               const struct run_prediction *predictions,
                               const struct scores *scores, int jobs, struct arena *arena)
{
    struct evidence *e = ARENA_NEW(arena, struct evidence);
    struct diagnoses out = {
        .sources = ARENA_ARRAY(arena, struct diagnosis, (size_t)scores->num_sources),
        .rows = ARENA_ARRAY(arena, struct diagnosis, NUM_DIAGNOSED_ROWS),
    };
    gather(e, cases, predictions, scores, jobs, arena);
    for (int i = 0; i < scores->num_sources; i++) {
        struct diagnosis of = diagnose_source(e, scores->sources[i].source, predictions, arena);
        if (of.groups > 0)
            out.sources[out.num_sources++] = of;
    }
    for (; out.num_rows < e->count && out.num_rows < NUM_DIAGNOSED_ROWS; out.num_rows++)
        out.rows[out.num_rows] = diagnose_row(e, out.num_rows, predictions, arena);
    return out;
}

int diagnosis_part(const struct diagnosis *of)
{
    int part = 0;
    for (int i = 1; i < num_time_parts && i < MOST_TIME_PARTS; i++)
        if (of->share[i] - of->usual[i] > of->share[part] - of->usual[part])
            part = i;
    return part;
}
