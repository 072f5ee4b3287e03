/* interchange/rule.h - rules that a framework checks, or plans that it cannot express, a row each.
 *
 * `export` refuses what breaks a row, `search --for` skips it, `import` and `tune` report it. */
#ifndef INTERCHANGE_RULE_H
#define INTERCHANGE_RULE_H

#include "interchange/job.h"
#include "interchange/settings.h"

/* Fails a check: where = the flag or layout word, then a format and the values found. */
#define BROKEN(where, ...) err_set(err, ERR_INFEASIBLE, where, __VA_ARGS__)

/* A job, and the framework's arguments for it: the target's struct, as target_arguments made it
 * from the job or target_read from a file. */
struct rule_case {
    const struct job *job;
    const void *args;
    const struct settings *environment; /* what a script sets; NULL: what an export would */
};

struct target_rule {
    const char *id;       /* "P8"; "X1" where the target cannot express it */
    const char *sentence; /* what must hold */
    const char *fix;      /* what to do, for people */
    /* False with ERR_INFEASIBLE: where = the flag or layout word, msg with the values found. */
    bool (*holds)(const struct rule_case *of, struct err *err);
    /* Changes the plan to the nearest one that may keep the rule. NULL: no plan of the model keeps
     * it, or only one with other degrees. */
    void (*mend)(struct job *job, struct arena *arena);
};

#endif
