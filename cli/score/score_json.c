#include "cli/print/terminal.h"
#include "cli/score/validation.h"

#include <math.h>
#include <stdlib.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *score_json(const struct score *score)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "groups", score->groups, "median",
                     number(score->median), "mean", number(score->mean), "p90", number(score->p90),
                     "worst", number(score->worst), "bias", number(score->bias), "coverage",
                     number(score->coverage));
}

static json_t *split_json(const struct split_score *split)
{
    json_t *object = score_json(&split->all);
    json_object_set_new(object, "fitted", score_json(&split->fitted));
    json_object_set_new(object, "not_fitted", score_json(&split->not_fitted));
    return object;
}

static json_t *kind_json(const struct scores *scores, enum score_kind kind)
{
    json_t *object = json_object();
    for (int i = 0; i < scores->num_sources; i++)
        if (scores->sources[i].kind[kind].all.groups > 0)
            json_object_set_new(object, scores->sources[i].source,
                                split_json(&scores->sources[i].kind[kind]));
    return object;
}

static json_t *skipped_json(const struct validation *v)
{
    json_t *list = json_array();
    for (int i = 0; i < v->rows.count; i++)
        if (*run_skip_reason(&v->cases[i]))
            json_array_append_new(list, json_pack("{s:s, s:s}", "id", v->rows.at[i].id, "reason",
                                                  run_skip_reason(&v->cases[i])));
    return list;
}

static json_t *worst_json(const struct validation *v)
{
    json_t *list = json_array();
    for (int i = 0; i < v->scores.num_scored && i < NUM_WORST; i++) {
        int row = v->scores.worst[i];
        const struct run_prediction *predicted = &v->predictions[row];
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f}", "id", v->rows.at[row].id,
                                              "source", v->rows.at[row].source_key, "predicted_s",
                                              predicted->step_s, "measured_s",
                                              run_measured_s(&v->rows.at[row]), "error",
                                              run_error(&v->cases[row], predicted)));
    }
    return list;
}

static json_t *assumptions_json(const struct validation *v)
{
    json_t *list = json_array();
    struct tallies tallies = validation_assumptions(v);
    for (int i = 0; i < tallies.count; i++)
        json_array_append_new(list, json_pack("{s:s, s:i}", "assumption", tallies.at[i].text,
                                              "rows", tallies.at[i].count));
    free(tallies.at);
    return list;
}

static json_t *ranking_json(const struct preferences *preferences)
{
    json_t *object = json_object();
    for (int i = 0; i < preferences->count; i++) {
        const struct preference *of = &preferences->at[i];
        json_object_set_new(object, of->source,
                            json_pack("{s:i, s:i, s:f, s:f, s:f, s:f}", "strata", of->strata,
                                      "plans", of->plans, "kendall_tau", of->tau, "kendall_tau_p10",
                                      of->tau_p10, "best_within_3_percent", of->near_best,
                                      "loss_p90", of->loss));
    }
    return object;
}

static json_t *regret_json(const struct choices *choices)
{
    json_t *object = json_object();
    for (int i = 0; i < choices->count; i++) {
        const struct choice *of = &choices->at[i];
        json_object_set_new(object, of->source,
                            json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "strata",
                                      of->strata, "plans", of->plans, "best_within_2_percent",
                                      of->close, "mean", of->mean, "worst", of->worst, "p_best",
                                      of->stated, "was_best", of->was, "brier", of->brier));
    }
    return object;
}

static json_t *tiers_json(const struct scores *scores)
{
    json_t *object = json_object();
    for (int tier = 0; tier < NUM_TIERS; tier++)
        if (scores->tiers[tier].groups > 0)
            json_object_set_new(object, tier_names[tier],
                                json_pack("{s:i, s:o, s:o}", "groups", scores->tiers[tier].groups,
                                          "coverage", number(scores->tiers[tier].coverage),
                                          "median", number(scores->tiers[tier].median)));
    return object;
}

static json_t *intervals_json(const struct interval_needs *needs)
{
    json_t *stacks = json_object();
    json_t *profiles = json_object();
    for (int i = 0; i < needs->count; i++) {
        const struct interval_need *of = &needs->at[i];
        json_object_set_new(of->is_of_stack ? stacks : profiles, of->name,
                            json_pack("{s:i, s:o, s:o}", "groups", of->groups, "needed",
                                      number(of->needed), "stated", json_real(of->stated)));
    }
    return json_pack("{s:o, s:o}", "stacks", stacks, "profiles", profiles);
}

static json_t *diagnosis_json(const struct diagnosis *of)
{
    json_t *shares = json_object();
    json_t *suspects = json_array();
    for (int i = 0; i < num_time_parts; i++)
        json_object_set_new(shares, time_part_table[i].name, json_real(of->share[i]));
    for (int i = 0; i < of->num_suspects; i++) {
        const struct suspect *suspect = &of->suspects[i];
        json_array_append_new(suspects,
                              json_pack("{s:s, s:s, s:f, s:f, s:f}", "constant", suspect->constant,
                                        "of", suspect->is_of_stack ? "stack" : "profile",
                                        "sensitivity", suspect->sensitivity, "change",
                                        suspect->change, "mean_left", suspect->left));
    }
    json_t *traits = json_array();
    for (int i = 0; i < of->traits.count; i++)
        json_array_append_new(traits, json_string(of->traits.column[i]));
    return json_pack("{s:i, s:f, s:f, s:o, s:o, s:o, s:f}", "groups", of->groups, "bias", of->bias,
                     "mean", of->mean, "share_of_step", shares, "constants", suspects, "traits",
                     traits, "variance_told", of->traits.explained);
}

static json_t *why_json(const struct validation *v)
{
    json_t *sources = json_object();
    json_t *rows = json_object();
    for (int i = 0; i < v->why.num_sources; i++)
        json_object_set_new(sources, v->why.sources[i].source, diagnosis_json(&v->why.sources[i]));
    for (int i = 0; i < v->why.num_rows; i++)
        json_object_set_new(rows, v->rows.at[v->why.rows[i].row].id,
                            diagnosis_json(&v->why.rows[i]));
    return json_pack("{s:o, s:o}", "sources", sources, "rows", rows);
}

void validation_print_json(const struct validation *v)
{
    const struct scores *scores = &v->scores;
    json_t *root = json_object();
    json_object_set_new(root, "rows", json_integer(scores->num_rows));
    json_object_set_new(root, "core_groups", json_integer(scores->num_core_groups));
    json_object_set_new(root, "scored", json_integer(scores->num_scored));
    json_object_set_new(root, "skipped", skipped_json(v));
    for (int kind = 0; kind < NUM_SCORE_KINDS; kind++)
        json_object_set_new(root, score_kind_names[kind], kind_json(scores, (enum score_kind)kind));
    json_object_set_new(root, "mean_of_medians", number(scores->mean_of_medians));
    json_object_set_new(root, "coverage", number(scores->all.not_fitted.coverage));
    json_object_set_new(root, "tiers", tiers_json(scores));
    json_object_set_new(root, "ranking", ranking_json(&v->preferences));
    json_object_set_new(root, "regret", regret_json(&v->choices));
    json_object_set_new(root, "intervals", intervals_json(&v->intervals));
    json_object_set_new(root, "worst_rows", worst_json(v));
    if (v->why.num_sources > 0)
        json_object_set_new(root, "why", why_json(v));
    json_object_set_new(root, "assumptions", assumptions_json(v));
    print_json(root);
    json_decref(root);
}
