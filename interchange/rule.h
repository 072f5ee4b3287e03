/* interchange/rule.h - table rows for rules that a framework checks and for plans that it cannot
 * express.
 *
 * `export` rejects a plan that breaks a rule, `search --for` skips it, and `import` and `tune`
 * report it. */
#ifndef INTERCHANGE_RULE_H
#define INTERCHANGE_RULE_H

#include "interchange/job.h"
#include "interchange/settings.h"

/* Fails a check: `where` is the flag or layout word, followed by a format and the values found. */
#define BROKEN(where, ...) err_set(err, ERR_INFEASIBLE, where, __VA_ARGS__)

/* A job, and the framework's arguments for it: the target's struct, made by target_arguments from
 * the job or by target_read from a file. */
struct rule_case {
    const struct job *job;
    const void *args;
    /* variables that a script sets; NULL: those that an export sets */
    const struct settings *environment;
};

struct target_rule {
    const char *id;       /* "P8"; "X1": the target cannot express the plan */
    const char *sentence; /* the condition that must hold */
    const char *fix;      /* advice shown to the user */
    /* Returns false with ERR_INFEASIBLE: where = the flag or layout word, msg has the values
     * found. */
    bool (*holds)(const struct rule_case *of, struct err *err);
    /* Changes the plan to the nearest one that may keep the rule. NULL: no plan of the model keeps
     * the rule, or only plans with other degrees. */
    void (*mend)(struct job *job, struct arena *arena);
};

#endif
