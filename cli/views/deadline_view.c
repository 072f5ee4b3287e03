#include "cli/views/deadline_view.h"

#include "base/text.h"
#include "base/units.h"
#include "cli/views/answer.h"
#include "cli/views/progress_bar.h"

#include <stdio.h>

bool check_deadline(const struct options *options, const struct setup *setup, struct err *err)
{
    if (options->search.deadline_s <= 0)
        return true;
    if (setup->model.tokens <= 0)
        return err_set(
            err, ERR_USAGE, "--deadline",
            "needs a number of tokens, but model %s states none; add for example --tokens 300Btok",
            setup->model.name);
    if (options->search.objective == OBJECTIVE_MEMORY)
        return err_set(err, ERR_USAGE, "--deadline",
                       "expected --objective time or cost; found memory: the plan with the least "
                       "memory may miss the deadline");
    return true;
}

bool deadline_choose_gpus(const struct options *options, struct setup *setup,
                          struct search_request *request, struct deadline *out, struct err *err)
{
    *out = (struct deadline){ .deadline_s = options->search.deadline_s,
                              .most_gpus = setup->system.num_gpus };
    if (!check_deadline(options, setup, err) || options->search.deadline_s <= 0)
        return err->code == ERR_NONE;
    struct progress_bar progress_bar;
    progress_bar_begin(&progress_bar, options, request);
    bool ok = search_deadline(request, options->search.deadline_s, &out->result, err);
    progress_bar_end(&progress_bar);
    if (ok && out->result.num_gpus > 0)
        setup->system.num_gpus = out->result.num_gpus;
    return ok;
}

void deadline_release(struct deadline *deadline)
{
    deadline_result_release(&deadline->result);
}

bool deadline_ended_early(const struct deadline *deadline)
{
    return deadline->result.timed_out || deadline->result.was_interrupted;
}

void deadline_fill_result(const struct deadline *deadline, struct search_result *result)
{
    *result = (struct search_result){ .method = search_methods[0].name, .space_name = "" };
    result->timed_out = deadline->result.timed_out;
    result->was_interrupted = deadline->result.was_interrupted;
    if (deadline->result.num_gpus == 0)
        return;
    result->top = ARENA_NEW(&result->arena, struct scored_plan);
    *result->top = deadline->result.best;
    result->num_top = 1;
}

void show_deadline(const struct setup *setup, const struct deadline *deadline)
{
    const struct deadline_result *result = &deadline->result;
    char allowed[40], taken[40], tokens[32];
    if (deadline->deadline_s <= 0 || result->num_gpus == 0)
        return;
    units_show_duration(deadline->deadline_s, allowed, sizeof allowed);
    units_show_duration(result->train_s, taken, sizeof taken);
    units_show_count(setup->model.tokens, tokens, sizeof tokens);
    if (result->is_met)
        printf("DEADLINE met with %d GPUs, the smallest number found (at most %d allowed): %s "
               "tokens take %s of the %s allowed, failures and checkpoints included\n",
               result->num_gpus, deadline->most_gpus, tokens, taken, allowed);
    else if (deadline_ended_early(deadline))
        printf("DEADLINE not met by the plans searched so far: %s tokens take %s instead of %s on "
               "%d GPUs\n",
               tokens, taken, allowed, result->num_gpus);
    else
        printf("DEADLINE NOT MET with up to %d GPUs: %s tokens take at least %s instead of %s (on "
               "%d GPUs)\n",
               deadline->most_gpus, tokens, taken, allowed, result->num_gpus);
}

void add_deadline_json(json_t *object, const struct deadline *deadline)
{
    const struct deadline_result *result = &deadline->result;
    if (deadline->deadline_s <= 0)
        return;
    json_object_set_new(object, "deadline_s", json_real(deadline->deadline_s));
    json_object_set_new(object, "deadline_met", json_boolean(result->is_met));
    json_object_set_new(object, "train_s",
                        result->num_gpus > 0 ? finite_json(result->train_s) : json_null());
    json_object_set_new(object, "most_gpus", json_integer(deadline->most_gpus));
    json_object_set_new(object, "counts_searched", json_integer(result->num_searched));
}

bool refuse_deadline(const struct deadline *deadline, struct err *err)
{
    const struct deadline_result *result = &deadline->result;
    char allowed[40], taken[40];
    if (deadline->deadline_s <= 0 || result->is_met || result->num_gpus == 0)
        return false;
    units_show_duration(deadline->deadline_s, allowed, sizeof allowed);
    units_show_duration(result->train_s, taken, sizeof taken);
    err_set(err, ERR_INFEASIBLE, "--deadline",
            "no plan on up to %d GPUs takes %s or less; the fastest, on %d, takes %s",
            deadline->most_gpus, allowed, result->num_gpus, taken);
    return true;
}
