/* The closed loop: calibrates this machine, then runs plans that were not used for calibration, in
 * two processes of one core each, and compares step time and memory with the prediction.
 *     bench_loop [CLUSTER.json]      given a file, it does not calibrate */
#include "base/core_share.h"
#include "base/length.h"
#include "base/statistics.h"
#include "base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUM_SHAPES = 3, TOLERATED_PERCENT = 5 };

static const char *const shapes[NUM_SHAPES] = {
    "\"name\": \"h256\", \"layers\": 8, \"hidden\": 256, \"heads\": 4, \"vocab\": 2048, \"seq\": "
    "256",
    "\"name\": \"h384\", \"layers\": 6, \"hidden\": 384, \"heads\": 6, \"vocab\": 1024, \"seq\": "
    "192",
    "\"name\": \"h768\", \"layers\": 4, \"hidden\": 768, \"heads\": 12, \"vocab\": 1536, \"seq\": "
    "128",
};
static const char rest[] =
    "\"format\": 1, \"summary\": \"\", \"source\": \"made up\", \"norm\": \"layernorm\", "
    "\"activation\": \"gelu\", \"positions\": \"learned\", \"linear_bias\": true, \"tied\": true, "
    "\"dropout\": 0, \"batch\": 8";

static const struct {
    int shape;
    const char *layout;
} plans[] = {
    { 0, "dp2" },
    { 0, "tp2" },
    { 0, "pp2" },
    { 0, "dp2 zero1 mb2" },
    { 0, "pp2 vpp2 recompute=full" },
    { 0, "dp2 zero3" },
    { 1, "dp2 mb4" },
    { 1, "tp2 sp mb2" },
    { 1, "pp2 vpp3" },
    { 1, "dp2 zero2 mb2" },
    { 1, "dp2 zero1 recompute=full" },
    { 1, "pp2 mb2 recompute=selective" },
    { 2, "dp2 zero1" },
    { 2, "tp2 mb4" },
    { 2, "pp2 vpp2" },
    { 2, "dp2 zero2 mb4 recompute=full" },
    { 2, "dp2 zero3 mb2" },
    { 2, "pp2 mb4" },
};
enum { NUM_PLANS = LENGTH(plans) };

struct outcome {
    int shape;
    double predicted_s, measured_s, p10_s, p90_s;
    double predicted_bytes, measured_bytes;
    double core_share; /* negative: not known */
    bool is_inside;    /* whether the measured time is within the predicted interval */
};

static const char *program(char *room, size_t size)
{
    const char *named = getenv("SIMSEARCH");
    ssize_t length = readlink("/proc/self/exe", room, size - 1);
    if (named)
        return named;
    room[length > 0 ? length : 0] = '\0';
    char *folder = strstr(room, "/tests/bench/bench_loop");
    if (folder)
        snprintf(folder, size - (size_t)(folder - room), "/simsearch");
    return room;
}

/* Runs a command; returns its standard output as JSON, or NULL when it fails. */
static json_t *ask(const char *command)
{
    FILE *out = popen(command, "r");
    json_t *json = out ? json_loadf(out, 0, NULL) : NULL;
    if (!out || pclose(out) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static double number(const json_t *object, const char *part, const char *key)
{
    const json_t *of = part ? json_object_get(object, part) : object;
    return json_number_value(json_object_get(of, key));
}

static bool write_shape(const char *path, const char *shape)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file, "{ %s, %s }\n", shape, rest);
    return fclose(file) == 0;
}

static bool run_plan(const char *cluster, const char *folder, int i, struct outcome *out)
{
    char room[4096], path[600];
    struct text command = { 0 };
    snprintf(path, sizeof path, "%s/model.json", folder);
    if (!write_shape(path, shapes[plans[i].shape]))
        return false;
    text_add(&command,
             "%s run --model %s --gpus 2 --cluster %s --layout '%s dtype=fp32' --steps 9 --json",
             program(room, sizeof room), path, cluster, plans[i].layout);
    json_t *json = ask(text_get(&command));
    text_release(&command);
    *out = (struct outcome){ .shape = plans[i].shape,
                             .predicted_s = number(json, "predicted", "step_s"),
                             .measured_s = number(json, "measured", "step_s"),
                             .p10_s = number(json, "measured", "step_s_p10"),
                             .p90_s = number(json, "measured", "step_s_p90"),
                             .predicted_bytes = number(json, "predicted", "peak_memory_bytes"),
                             .measured_bytes = number(json, "measured", "peak_memory_bytes"),
                             .core_share = number(json, NULL, "core_share"),
                             .is_inside = json_is_true(json_object_get(json, "inside_interval")) };
    if (json_is_null(json_object_get(json, "core_share")))
        out->core_share = -1;
    json_decref(json);
    return out->measured_s > 0;
}

static void show_errors(const char *what, double *errors, int count)
{
    numbers_sort(errors, (size_t)count);
    printf("%s: median |error| %.1f %%, worst %.1f %% of %d plans\n", what, 100 * errors[count / 2],
           100 * errors[count - 1], count);
}

/* Whether other programs used the cores during a step. Such a step cannot match its prediction and
 * is reported as disturbed. */
static bool is_disturbed(const struct outcome *o)
{
    return o->core_share >= 0 && o->core_share < quiet_core_share;
}

static int show_covered(const struct outcome *all, int count)
{
    int inside = 0, disturbed = 0;
    for (int i = 0; i < count; i++) {
        disturbed += is_disturbed(&all[i]);
        inside += !is_disturbed(&all[i]) && all[i].is_inside;
    }
    printf("of %d plans %d were disturbed by other programs; %d of the others lie in their 90 %% "
           "intervals\n",
           count, disturbed, inside);
    return disturbed;
}

/* Compares pairs of plans of one shape with clearly different times. Shows the share that is
 * predicted in the right order minus the share in the wrong order. */
static void show_order(const struct outcome *all, int count)
{
    int pairs = 0, sum = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            double measured = log(all[i].measured_s / all[j].measured_s);
            double predicted = log(all[i].predicted_s / all[j].predicted_s);
            if (all[i].shape != all[j].shape || fabs(measured) < 1e-2 * TOLERATED_PERCENT)
                continue;
            pairs++;
            sum += measured * predicted > 0 ? 1 : -1;
        }
    if (pairs > 0)
        printf("order within a shape: Kendall tau %.2f over %d pairs more than %d %% apart\n",
               (double)sum / pairs, pairs, TOLERATED_PERCENT);
}

static void show_plan(int i, const struct outcome *o)
{
    printf("  h%-4.3s %-30s %8.3f %8.3f %+6.1f %%   %.3f to %.3f   %7.1f %7.1f %+6.1f %%\n",
           strstr(shapes[o->shape], ": \"h") + 4, plans[i].layout, o->predicted_s, o->measured_s,
           100 * log(o->predicted_s / o->measured_s), o->p10_s, o->p90_s, o->predicted_bytes / 1e6,
           o->measured_bytes / 1e6, 100 * log(o->predicted_bytes / o->measured_bytes));
    fflush(stdout);
}

/* Shows all outcomes; returns the number of disturbed ones. */
static int show_all(const struct outcome *all, int count)
{
    double time[NUM_PLANS], memory[NUM_PLANS];
    for (int i = 0; i < count; i++) {
        time[i] = fabs(log(all[i].predicted_s / all[i].measured_s));
        memory[i] = fabs(log(all[i].predicted_bytes / all[i].measured_bytes));
    }
    show_errors("step time", time, count);
    show_errors("peak memory", memory, count);
    show_order(all, count);
    return show_covered(all, count);
}

/* --- refined by one run --------------------------------------------------------------------- */

/* For the first shape with half its batch, which is not in the list, runs the plan that search
 * chooses. Writes a cluster file refined by its measurements to folder/refined.json. */
static bool refine(const char *cluster, const char *folder)
{
    char room[4096], model[600];
    const char *simsearch = program(room, sizeof room);
    struct text command = { 0 };
    snprintf(model, sizeof model, "%s/model.json", folder);
    if (!write_shape(model, shapes[0]))
        return false;
    text_add(&command,
             "%s --gpus 2 --model %s --precision fp32 --batch 4 --cluster %s -o %s/plan.json "
             "--quiet && %s run %s/plan.json --steps 9 --json > %s/run.json && "
             "%s calibrate --refine %s/run.json %s/plan.json -o %s/refined.json",
             simsearch, model, cluster, folder, simsearch, folder, folder, simsearch, folder,
             folder, folder);
    bool ok = system(text_get(&command)) == 0;
    text_release(&command);
    return ok;
}

static double predicted_s(const char *cluster, const char *folder, int i)
{
    char room[4096], model[600];
    struct text command = { 0 };
    snprintf(model, sizeof model, "%s/model.json", folder);
    if (!write_shape(model, shapes[plans[i].shape]))
        return 0;
    text_add(&command,
             "%s simulate --model %s --gpus 2 --cluster %s --layout '%s dtype=fp32' --json",
             program(room, sizeof room), model, cluster, plans[i].layout);
    json_t *json = ask(text_get(&command));
    double step_s = json_number_value(json_object_get(json, "step_s"));
    json_decref(json);
    text_release(&command);
    return step_s;
}

/* Shows the plans of the list with the refined file; none of them was used to refine it. */
static bool show_refined(const struct outcome *all, int count, const char *folder)
{
    char cluster[600];
    double errors[NUM_PLANS];
    snprintf(cluster, sizeof cluster, "%s/refined.json", folder);
    for (int i = 0; i < count; i++) {
        double refined_s = predicted_s(cluster, folder, i);
        if (refined_s <= 0)
            return false;
        errors[i] = fabs(log(refined_s / all[i].measured_s));
    }
    show_errors("step time, refined by one run of another plan", errors, count);
    return true;
}

static bool calibrate(const char *cluster)
{
    char room[4096];
    struct text command = { 0 };
    text_add(&command, "%s calibrate --ranks 2 --quick --quiet -o %s", program(room, sizeof room),
             cluster);
    bool ok = system(text_get(&command)) == 0;
    text_release(&command);
    return ok;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/bench_loop.XXXXXX", cluster[600];
    struct outcome all[NUM_PLANS];
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !mkdtemp(folder)) {
        printf("not run: this needs two cores\n");
        return 0;
    }
    snprintf(cluster, sizeof cluster, "%s", argc > 1 ? argv[1] : folder);
    if (argc < 2) {
        strcat(cluster, "/here.json");
        if (!calibrate(cluster))
            return 1;
    }
    printf("  %-5s %-30s %8s %8s %8s   %-14s   %7s %7s\n", "shape", "plan", "predict", "measure",
           "error", "P10 to P90, s", "MB pred", "MB meas");
    int count = 0;
    for (int i = 0; i < NUM_PLANS; i++) {
        if (!run_plan(cluster, folder, i, &all[i]))
            return 1;
        show_plan(i, &all[i]);
        count++;
    }
    if (show_all(all, count) > 0) {
        printf("not refined: this needs a run without other programs on its cores\n");
        return 0;
    }
    return refine(cluster, folder) && show_refined(all, count, folder) ? 0 : 1;
}
