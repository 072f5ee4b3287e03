/* search/questions/deadline.h - the fewest GPUs whose fastest plan trains the model's tokens in
 * time. The time is the mean of the whole run with failures and checkpoints. */
#ifndef SEARCH_QUESTIONS_DEADLINE_H
#define SEARCH_QUESTIONS_DEADLINE_H

#include "search/search.h"

struct deadline_result {
    bool is_met;
    /* The fewest GPUs that meet the deadline. If no number of GPUs meets it, the number with the
     * fastest plan, the fewest on a tie; 0: no plan fits on any number of GPUs. */
    int num_gpus;
    struct scored_plan best; /* the best plan on num_gpus, when num_gpus > 0 */
    /* time in which `best` trains on all tokens, failures and checkpoints included; HUGE_VAL:
     * never */
    double train_s;
    int num_searched; /* numbers of GPUs that were searched; numbers below them were skipped, as
                         bounds exclude them */
    bool timed_out, was_interrupted;
    struct arena arena;
};

/* Searches the numbers of GPUs (counts_all), up to the system's, that could meet the deadline, in
 * rising order until one does. More GPUs are not always faster, since their data ranks may not
 * divide the batch. The model's tokens must be known. False only when the request is wrong. Release
 * the result in either case. */
bool search_deadline(const struct search_request *asked, double deadline_s,
                     struct deadline_result *result, struct err *err);
void deadline_result_release(struct deadline_result *result);

#endif
