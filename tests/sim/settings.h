/* tests/sim/settings.h - calls functions for every shipped cluster, some models and some plans. */
#ifndef TESTS_SIM_SETTINGS_H
#define TESTS_SIM_SETTINGS_H

#include "sim/engine/simulate.h"

enum { MOST_SETTING_PLANS = 64, SETTING_GPUS = 64, SETTING_BATCH = 256 };

/* One model on one cluster, and its valid plans. */
struct setting {
    struct system system;
    struct model model;
    struct arena arena;
    struct plan plans[MOST_SETTING_PLANS];
    const char *texts[MOST_SETTING_PLANS];
    int num_plans;
};
extern struct setting setting; /* the loaded setting */

/* Fails the test when something cannot be loaded. */
void setting_load(const char *cluster, const char *stack, const char *model, int num_gpus,
                  double batch);
void setting_release(void);

/* Reads a layout; false if it is not valid for the model on these GPUs. On GPUs without bf16 the
 * plan uses fp16. */
bool setting_read_plan(const char *layout, struct plan *out);

/* Returns the number of shipped clusters. Call it once before the tests. */
int settings_num_clusters(void);
/* Calls `claim` for each model on cluster `i`. */
void settings_each(int i, void (*claim)(void));
/* Calls `claim` for each plan and its prediction. */
void settings_each_prediction(int i, void (*claim)(const struct prediction *, const char *));

#endif
