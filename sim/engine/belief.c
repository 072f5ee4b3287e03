/* A joint normal distribution of the logarithms of several runs' step times, which is updated when
 * a run has been measured. A class is a kind of time within a step, such as compute or tensor
 * collectives. Evidence is runs that were measured on the same stack and GPU; rivals are the plans
 * that compete to be the fastest. */
#include "sim/engine/belief.h"

#include "base/arena.h"
#include "base/normal.h"
#include "base/random.h"
#include "sim/engine/chances.h"
#include "sim/engine/interval.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* DRAWS: number of random draws of the plans' times; belief_outlook makes OUTLOOK_DRAWS of them.
 * OUTLOOKS: number of draws of the times that further runs may show. MOST_FURTHER: maximum number
 * of further runs that are considered together. */
enum { DRAWS = 400, OUTLOOK_DRAWS = 200, OUTLOOKS = 60, MOST_FURTHER = 8 };

/* --- before any run ------------------------------------------------------------------------ */

#define CLASS(name) ((int)(offsetof(struct error_widths, name) / sizeof(double)))

/* Whether two plans have the same precision, the same attention kernel, and matrix products of the
 * same shapes. The shapes depend on a rank's tokens per microbatch and on the numbers of tensor and
 * expert ranks. */
static bool has_same_shapes(const struct plan *a, const struct plan *b)
{
    return a->tp == b->tp && a->ep == b->ep && a->etp == b->etp &&
           (long long)a->microbatch * b->cp == (long long)b->microbatch * a->cp &&
           a->attention == b->attention && a->precision == b->precision;
}

bool plans_are_alike(const struct plan *a, const struct plan *b, int class)
{
    if (class == CLASS(tensor))
        return has_same_shapes(a, b) && a->sp == b->sp;
    if (class == CLASS(context))
        return has_same_shapes(a, b) && a->cp == b->cp && a->context_comm == b->context_comm;
    if (class == CLASS(pipeline) || class == CLASS(bubble))
        return a->pp == b->pp && a->vpp == b->vpp && has_same_shapes(a, b);
    if (class == CLASS(data) || class == CLASS(optimizer))
        return plans_cut_alike(a, b) && a->shard == b->shard && a->tp == b->tp && a->pp == b->pp &&
               a->ep == b->ep;
    return has_same_shapes(a, b);
}

/* The standard deviations of a run's error, by class of its time. */
struct errors {
    /* of the error that the class's factor causes; all runs share the factor */
    double shared[NUM_ERROR_PARTS];
    double own[NUM_ERROR_PARTS]; /* of the remaining error */
};

void belief_own_errors(const struct system *system, const struct believed *run,
                       double own[NUM_ERROR_PARTS])
{
    const struct stack *stack = &system->stack;
    double shares[NUM_ERROR_PARTS], sum2 = 0;
    interval_shares(run->parts, shares);
    for (int k = 0; k < NUM_ERROR_PARTS; k++) {
        struct error_widths alone = { 0 };
        error_width_set(&alone, k, error_width(&stack->errors.widths, k));
        own[k] = chance_own_width(&alone, shares) / normal_90;
        sum2 += own[k] * own[k];
    }
    if (!(sum2 > 0)) /* the stack, such as this project's own executor, has no interval widths by
                        class of time */
        own[0] = fmax(stack->errors.log, system->profile.error_log) / normal_90;
}

static struct errors errors_of(const struct system *system, const struct believed *run)
{
    struct errors out = { { 0 }, { 0 } };
    double shares[NUM_ERROR_PARTS];
    interval_shares(run->parts, shares);
    for (int k = 1; k < NUM_ERROR_PARTS; k++)
        out.shared[k] = shares[k] * chance_class_width(system, k) / normal_90;
    belief_own_errors(system, run, out.own);
    return out;
}

/* Whether the products of two models have the same widths. */
static bool has_same_widths(const struct model *a, const struct model *b)
{
    return a == b || (a->hidden == b->hidden && a->ffn == b->ffn && a->expert_ffn == b->expert_ffn);
}

/* The correlation of two runs' own errors in a class. A run's own error is what remains without the
 * factor that all runs share. */
static double own_share(const struct believed *of, const struct believed *with,
                        const struct model *model, int class)
{
    const struct model *mine = of->model ? of->model : model;
    const struct model *other = with->model ? with->model : model;
    if (of == with || (of->rival == with->rival && of->rival >= 0))
        return 1;
    if (!plans_are_alike(of->plan, with->plan, class))
        return 0;
    return (of->plan->pp == with->plan->pp ? 1 : SHARE_OF_DEPTHS) *
           (has_same_widths(mine, other) ? 1 : SHARE_OF_WIDTHS);
}

/* The covariance of two runs' errors. `model` is the model of the rivals; NULL if there is no
 * evidence. */
static double covariance(const struct errors *a, const struct errors *b, const struct believed *of,
                         const struct believed *with, const struct model *model)
{
    double sum = 0;
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        sum += a->shared[k] * b->shared[k] + own_share(of, with, model, k) * a->own[k] * b->own[k];
    if (of == with && of->is_slice)
        sum += SD_OF_SLICE * SD_OF_SLICE;
    return sum;
}

/* --- evidence ------------------------------------------------------------------------------ */

/* The evidence: `root` is the lower Cholesky factor of its covariance, noise included, and
 * `surprise` solves root x surprise = log(measured / predicted). */
struct known {
    int count;
    struct errors errors[MOST_EVIDENCE];
    double root[MOST_EVIDENCE][MOST_EVIDENCE];
    double surprise[MOST_EVIDENCE];
};

/* Solves root x = values in place. */
static void solve(const struct known *known, double *values)
{
    for (int i = 0; i < known->count; i++) {
        for (int k = 0; k < i; k++)
            values[i] -= known->root[i][k] * values[k];
        values[i] /= known->root[i][i];
    }
}

static void know(const struct system *system, const struct evidence *evidence, struct known *out)
{
    out->count = evidence->count < MOST_EVIDENCE ? evidence->count : MOST_EVIDENCE;
    for (int i = 0; i < out->count; i++) {
        const struct believed *run = &evidence->runs[i];
        out->errors[i] = errors_of(system, run);
        out->surprise[i] = log(evidence->measured_s[i] / run->step_s);
        for (int k = 0; k <= i; k++) {
            double rest = covariance(&out->errors[i], &out->errors[k], run, &evidence->runs[k],
                                     evidence->model);
            rest += i == k ? SD_OF_NOISE * SD_OF_NOISE : 0;
            for (int j = 0; j < k; j++)
                rest -= out->root[i][j] * out->root[k][j];
            out->root[i][k] = i == k ? sqrt(fmax(rest, 1e-12)) : rest / out->root[k][k];
        }
    }
    solve(out, out->surprise);
}

/* Conditions the belief on the evidence. */
static void heed(const struct believed *runs, const struct errors *errors,
                 const struct evidence *evidence, const struct known *known, struct belief *belief)
{
    double(*moves)[MOST_EVIDENCE] = arena_grow(NULL, (size_t)belief->count * sizeof *moves);
    for (int i = 0; i < belief->count; i++) {
        for (int e = 0; e < known->count; e++)
            moves[i][e] = covariance(&errors[i], &known->errors[e], &runs[i], &evidence->runs[e],
                                     evidence->model);
        solve(known, moves[i]);
        for (int e = 0; e < known->count; e++)
            belief->mean[i] += moves[i][e] * known->surprise[e];
        for (int k = 0; k <= i; k++) {
            double known_of = 0;
            for (int e = 0; e < known->count; e++)
                known_of += moves[i][e] * moves[k][e];
            belief->cov[i][k] -= known_of;
            belief->cov[k][i] = belief->cov[i][k];
        }
    }
    free(moves);
}

void belief_begin(const struct system *system, const struct believed *runs, int count, int rivals,
                  const struct evidence *evidence, struct belief *out)
{
    struct errors errors[MOST_BELIEVED];
    const struct model *model = evidence ? evidence->model : NULL;
    out->count = count;
    out->rivals = rivals;
    for (int i = 0; i < count; i++) {
        errors[i] = errors_of(system, &runs[i]);
        out->mean[i] = log(runs[i].step_s);
        for (int k = 0; k <= i; k++)
            out->cov[i][k] = out->cov[k][i] =
                covariance(&errors[i], &errors[k], &runs[i], &runs[k], model);
    }
    if (!evidence || evidence->count == 0 || count == 0)
        return;
    struct known *known = arena_grow(NULL, sizeof *known);
    know(system, evidence, known);
    heed(runs, errors, evidence, known, out);
    free(known);
}

/* --- a run --------------------------------------------------------------------------------- */

/* Standard deviation of the time that a run will show, measurement noise included. */
static double sd_shown(const struct belief *belief, int run)
{
    return sqrt(belief->cov[run][run] + SD_OF_NOISE * SD_OF_NOISE);
}

/* moves[i] is the change of run i's mean if `run` is measured one standard deviation above its
 * mean. The covariance of runs i and j falls by moves[i] x moves[j]. */
static void condition(struct belief *belief, int run, double *moves)
{
    double sd = sd_shown(belief, run);
    for (int i = 0; i < belief->count; i++)
        moves[i] = belief->cov[i][run] / sd;
    for (int i = 0; i < belief->count; i++)
        for (int k = 0; k < belief->count; k++)
            belief->cov[i][k] -= moves[i] * moves[k];
}

void belief_learn(struct belief *belief, int run, double measured_s)
{
    double moves[MOST_BELIEVED];
    double surprise = (log(measured_s) - belief->mean[run]) / sd_shown(belief, run);
    condition(belief, run, moves);
    for (int i = 0; i < belief->count; i++)
        belief->mean[i] += moves[i] * surprise;
}

/* --- chances ------------------------------------------------------------------------------- */

/* Cholesky factor of the covariance of the first runs, which are the plans that compete. */
static void take_root(const struct belief *belief, double root[MOST_RIVALS][MOST_RIVALS])
{
    for (int i = 0; i < belief->rivals; i++)
        for (int k = 0; k <= i; k++) {
            double rest = belief->cov[i][k];
            for (int j = 0; j < k; j++)
                rest -= root[i][j] * root[k][j];
            if (i == k)
                root[i][i] = sqrt(fmax(rest, 0));
            else
                root[i][k] = root[k][k] > 1e-9 ? rest / root[k][k] : 0;
        }
}

struct shares {
    double fastest[MOST_RIVALS], close[MOST_RIVALS];
};

static void add_draw(int rivals, const double *log_s, struct shares *to)
{
    const double close = log(1 + CLOSE_TO_BEST);
    int least = 0;
    for (int i = 1; i < rivals; i++)
        least = log_s[i] < log_s[least] ? i : least;
    to->fastest[least]++;
    for (int i = 0; i < rivals; i++)
        to->close[i] += log_s[i] <= log_s[least] + close;
}

/* Draws of the competing plans' errors. The same draws are used for all means. */
struct draws {
    int count;
    double log_s[DRAWS][MOST_RIVALS];
};

static void draw_errors(const struct belief *belief, int count, struct draws *out)
{
    double root[MOST_RIVALS][MOST_RIVALS];
    struct random rng = random_new(1, 0);
    take_root(belief, root);
    memset(out, 0, sizeof *out);
    out->count = count;
    for (int draw = 0; draw < count; draw++)
        for (int k = 0; k < belief->rivals; k++) {
            double z = random_normal(&rng);
            for (int i = k; i < belief->rivals; i++)
                out->log_s[draw][i] += root[i][k] * z;
        }
}

static void find_shares(int rivals, const double *mean, const struct draws *draws,
                        struct shares *out)
{
    memset(out, 0, sizeof *out);
    for (int draw = 0; draw < draws->count; draw++) {
        double log_s[MOST_RIVALS];
        for (int i = 0; i < rivals; i++)
            log_s[i] = mean[i] + draws->log_s[draw][i];
        add_draw(rivals, log_s, out);
    }
    for (int i = 0; i < rivals; i++) {
        out->fastest[i] /= draws->count;
        out->close[i] /= draws->count;
    }
}

void belief_chances(const struct belief *belief, double *chance)
{
    struct draws draws;
    struct shares shares;
    draw_errors(belief, DRAWS, &draws);
    find_shares(belief->rivals, belief->mean, &draws, &shares);
    memcpy(chance, shares.close, (size_t)belief->rivals * sizeof *chance);
}

static int likeliest(const struct belief *belief, const double *mean, const double *close)
{
    int best = 0;
    for (int i = 1; i < belief->rivals; i++)
        if (close[i] > close[best] || (!(close[i] < close[best]) && mean[i] < mean[best]))
            best = i;
    return best;
}

int belief_choice(const struct belief *belief, double *chance)
{
    double close[MOST_RIVALS];
    belief_chances(belief, close);
    int best = likeliest(belief, belief->mean, close);
    *chance = close[best];
    return best;
}

int belief_advice(const struct belief *belief, int present, double *chance)
{
    double close[MOST_RIVALS];
    int best = present;
    if (present < 0)
        return belief_choice(belief, chance);
    belief_chances(belief, close);
    for (int i = 0; i < belief->rivals; i++)
        if (i != present && close[i] > close[best] &&
            belief_prefers(belief, i, present) >= SURE_GAIN)
            best = i;
    *chance = close[best];
    return best;
}

double belief_prefers(const struct belief *belief, int a, int b)
{
    double variance = belief->cov[a][a] + belief->cov[b][b] - 2 * belief->cov[a][b];
    double gap = belief->mean[b] - belief->mean[a];
    return variance > 1e-12 ? (1 + erf(gap / sqrt(2 * variance))) / 2 : gap > 0;
}

/* --- outlook ------------------------------------------------------------------------------- */

static double entropy_bits(int count, const double *shares)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum -= shares[i] > 0 ? shares[i] * log2(shares[i]) : 0;
    return sum;
}

struct outlook belief_outlook(const struct belief *belief, const int *runs, int count)
{
    struct belief after = *belief;
    double moves[MOST_FURTHER][MOST_BELIEVED];
    struct draws draws;
    struct shares shares;
    struct outlook out = { 0, 0 };
    struct random rng = random_new(2, 0);
    int num_runs = count < MOST_FURTHER ? count : MOST_FURTHER;
    draw_errors(belief, OUTLOOK_DRAWS, &draws);
    find_shares(belief->rivals, belief->mean, &draws, &shares);
    out.bits = entropy_bits(belief->rivals, shares.fastest);
    for (int i = 0; i < num_runs; i++)
        condition(&after, runs[i], moves[i]);
    draw_errors(&after, OUTLOOK_DRAWS, &draws);
    for (int turn = 0; turn < OUTLOOKS; turn++) {
        double mean[MOST_RIVALS];
        memcpy(mean, belief->mean, sizeof mean);
        for (int k = 0; k < num_runs; k++) {
            double z = random_normal(&rng);
            for (int i = 0; i < belief->rivals; i++)
                mean[i] += moves[k][i] * z;
        }
        find_shares(after.rivals, mean, &draws, &shares);
        out.p_best += shares.close[likeliest(&after, mean, shares.close)] / OUTLOOKS;
        out.bits -= entropy_bits(belief->rivals, shares.fastest) / OUTLOOKS;
    }
    return out;
}
