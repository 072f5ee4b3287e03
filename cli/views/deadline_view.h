/* cli/views/deadline_view.h - "search --deadline": finds the fewest GPUs that finish in time, and
 * searches on them. */
#ifndef CLI_VIEWS_DEADLINE_VIEW_H
#define CLI_VIEWS_DEADLINE_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/deadline.h"

struct deadline {
    double deadline_s; /* 0: none was given */
    int most_gpus;     /* largest number that --gpus allows */
    struct deadline_result result;
};

/* Checks that the tokens are known and the objective is time. */
bool check_deadline(const struct options *options, const struct setup *setup, struct err *err);

/* Finds the smallest number of GPUs that meets the deadline, and sets it in `setup`, which
 * `request` refers to. False if the request is wrong. Does nothing without a deadline. Release
 * `out` in any case. */
bool deadline_choose_gpus(const struct options *options, struct setup *setup,
                          struct search_request *request, struct deadline *out, struct err *err);
void deadline_release(struct deadline *deadline);

/* True if the search for the number of GPUs was interrupted or ran out of time; the answer is then
 * the best plan that it had found. */
bool deadline_ended_early(const struct deadline *deadline);
void deadline_fill_result(const struct deadline *deadline, struct search_result *result);

void show_deadline(const struct setup *setup, const struct deadline *deadline);
void add_deadline_json(json_t *object, const struct deadline *deadline);

/* True if the deadline is missed; `err` then has the message and exit code 3. */
bool refuse_deadline(const struct deadline *deadline, struct err *err);

#endif
