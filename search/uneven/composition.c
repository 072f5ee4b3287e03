/* How the times of stages combine to the time of a step. A suffix is the stages from one stage to
 * the last, with their layers. Its keys are a few numbers that describe its cost. */
#include "search/uneven/composition.h"

#include <math.h>

/* The larger value. fmax is not expanded inline, and computing bounds takes millions of maxima. No
 * time is NaN. */
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

struct ahead ahead_with(const struct stage_table *table, const struct ahead *before, int stage,
                        const struct stage_option *option)
{
    double lag_s = stage == table->num_stages - 1 ? 0 : table->lag_s;
    double forward_s = option->forward_s + lag_s;
    return (struct ahead){ before->forward_s + forward_s,
                           before->both_s + forward_s + option->backward_s + lag_s };
}

/* --- the surrogate ---------------------------------------------------------------------------- */

enum { SUM, LONGEST };

static struct suffix add_stage(const struct stage_table *table, int stage,
                               const struct stage_option *option, const struct suffix *behind)
{
    (void)table, (void)stage;
    double pass_s = option->forward_s + option->backward_s;
    return (struct suffix){ .key[SUM] = pass_s + behind->key[SUM],
                            .key[LONGEST] = larger(pass_s, behind->key[LONGEST]) };
}

static double surrogate_s(const struct stage_table *table, const struct suffix *whole)
{
    return whole->key[SUM] + (table->num_microbatches - 1) * whole->key[LONGEST];
}

static double least_surrogate_s(const struct stage_table *table, const struct ahead *ahead,
                                const struct suffix *suffix)
{
    (void)ahead;
    return surrogate_s(table, suffix);
}

const struct composition surrogate = { "surrogate", "Zheng et al. 2022, section 5.2", add_stage,
                                       surrogate_s, least_surrogate_s };

/* --- the lower bound -------------------------------------------------------------------------- */

/* ROUND_TRIP: from the arrival of one microbatch until its gradient leaves. SPAN: from the first
 * arrival until the last gradient leaves. END: from the first arrival until the last reduction has
 * ended. OPTIMIZER: the longest of any stage. */
enum { ROUND_TRIP, SPAN, END, OPTIMIZER };

/* Time from the first microbatch's arrival until the last gradient leaves the stage. `behind_s` is
 * the round trip through the later stages. */
static double own_span_s(const struct stage_table *table, int stage,
                         const struct stage_option *option, double behind_s)
{
    int microbatches = table->num_microbatches;
    int ahead = table->num_stages - stage;
    int in_flight = ahead < microbatches ? ahead : microbatches;
    int rounds = microbatches - in_flight;
    double forward_s = option->forward_s;
    double backward_s = option->backward_s;
    double round_s = forward_s + backward_s;
    double first_s = larger(in_flight * forward_s, forward_s + behind_s);
    if (rounds == 0)
        return larger(first_s + in_flight * backward_s,
                      in_flight * forward_s + behind_s + backward_s);
    int trips = rounds / in_flight;
    int rest = rounds % in_flight;
    double trip_s = round_s + behind_s;
    double throttled_s =
        rest > 0 ? trips * trip_s + rest * round_s : (trips - 1) * trip_s + in_flight * round_s;
    return first_s + larger(rounds * round_s, throttled_s) +
           larger(in_flight * backward_s, backward_s + behind_s);
}

/* END and OPTIMIZER are raised to their least value over all divisions. A smaller value would not
 * lower any total, but it would make equally good suffixes differ. */
static struct suffix bound_stage(const struct stage_table *table, int stage,
                                 const struct stage_option *option, const struct suffix *behind)
{
    bool is_last = stage == table->num_stages - 1;
    double lags_s = is_last ? 0 : 2 * table->lag_s;
    double behind_s = behind->key[ROUND_TRIP] + lags_s;
    double pass_s = option->forward_s + option->backward_s;
    double own_s = own_span_s(table, stage, option, behind_s);
    double span_s = larger(own_s, pass_s + lags_s + behind->key[SPAN]);
    double end_s =
        larger(own_s + option->data_comm_s, option->forward_s + lags_s / 2 + behind->key[END]);
    end_s = larger(end_s, span_s + table->after_s[stage]);
    if (stage == 0)
        end_s = larger(end_s, span_s + option->data_comm_s);
    double optimizer_s = larger(option->optimizer_s, table->longest_optimizer_s);
    return (struct suffix){ .key[ROUND_TRIP] = pass_s + behind_s,
                            .key[SPAN] = span_s,
                            .key[END] = end_s,
                            .key[OPTIMIZER] = larger(optimizer_s, behind->key[OPTIMIZER]) };
}

static double bound_s(const struct stage_table *table, const struct suffix *whole)
{
    return whole->key[END] + whole->key[OPTIMIZER] + table->step_s;
}

/* Each stage before the suffix delays the suffix's END by at least one forward, and its SPAN by one
 * forward and one backward, as bound_stage and any_order_stage do. */
static double least_bound_s(const struct stage_table *table, const struct ahead *ahead,
                            const struct suffix *suffix)
{
    double span_s = ahead->both_s + suffix->key[SPAN] + table->after_s[0];
    return larger(ahead->forward_s + suffix->key[END], span_s) + suffix->key[OPTIMIZER] +
           table->step_s;
}

const struct composition lower_bound = { "lower bound", "", bound_stage, bound_s, least_bound_s };

/* --- the lower bound for any order
 * -------------------------------------------------------------- */

static struct suffix own_stage(const struct stage_table *table, const struct stage_option *option,
                               const struct suffix *behind)
{
    double own_s =
        table->num_microbatches * stage_pass_s(option) + option->data_comm_s + option->optimizer_s;
    return (struct suffix){ .key[END] = larger(own_s, behind->key[END]) };
}

static struct suffix any_order_stage(const struct stage_table *table, int stage,
                                     const struct stage_option *option, const struct suffix *behind)
{
    if (table->validates)
        return own_stage(table, option, behind);
    double microbatches = table->num_microbatches;
    double lags_s = stage == table->num_stages - 1 ? 0 : 2 * table->lag_s;
    double pass_s = stage_pass_s(option);
    double way_s = option->forward_s + option->backward_s + lags_s;
    double span_s = larger(microbatches * (pass_s - option->weights_s), way_s + behind->key[SPAN]);
    double end_s = larger(microbatches * pass_s + option->data_comm_s,
                          option->forward_s + lags_s / 2 + behind->key[END]);
    end_s = larger(end_s, span_s + table->after_s[stage]);
    if (stage == 0)
        end_s = larger(end_s, span_s + option->first_weights_s + option->data_comm_s);
    double optimizer_s = larger(option->optimizer_s, table->longest_optimizer_s);
    return (struct suffix){ .key[SPAN] = span_s,
                            .key[END] = end_s,
                            .key[OPTIMIZER] = larger(optimizer_s, behind->key[OPTIMIZER]) };
}

/* If no stage waits for the gradient norm of all stages, stages add nothing to each other's
 * time. */
static double least_any_order_s(const struct stage_table *table, const struct ahead *ahead,
                                const struct suffix *suffix)
{
    return table->validates ? bound_s(table, suffix) : least_bound_s(table, ahead, suffix);
}

const struct composition any_order_bound = { "lower bound in any order", "", any_order_stage,
                                             bound_s, least_any_order_s };

const struct composition *table_bound(const struct stage_table *table)
{
    return table->in_any_order ? &any_order_bound : &lower_bound;
}
