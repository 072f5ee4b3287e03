/* "search --largest": finds the largest model of a family that fits. A member of a family is a
 * preset whose name begins with the family's name. */
#include "cli/views/largest.h"

#include "base/units.h"
#include "cli/views/answer.h"
#include "cli/views/progress_bar.h"
#include "search/probe.h"
#include "search/questions/depth.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- families ----------------------------------------------------------------------------- */

static bool is_member(const char *name, const char *family)
{
    size_t length = strlen(family);
    if (length == 0 || strncmp(name, family, length) != 0)
        return false;
    unsigned char next = (unsigned char)name[length];
    unsigned char last = (unsigned char)family[length - 1];
    return next == '\0' || next == '-' || (isalpha(last) && isdigit(next));
}

/* Length of the family's name: "gpt3" in "gpt3-13b". */
static size_t family_length(const char *name)
{
    return strcspn(name, "-");
}

static bool refuse_family(const char *family, const struct model_preset *presets, size_t count,
                          struct err *err)
{
    struct arena arena = { 0 };
    const char **names = ARENA_ARRAY(&arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        char *name = arena_text(&arena, presets[i].model.name);
        name[family_length(name)] = '\0';
        names[i] = name;
    }
    names[count] = "layers";
    const char *nearest = text_nearest(family, names, count + 1);
    if (nearest)
        err_set(err, ERR_USAGE, "--largest", "there is no family \"%.40s\"; did you mean \"%s\"?",
                family, nearest);
    else
        err_set(err, ERR_USAGE, "--largest",
                "expected layers, or a family like gpt3 or llama (`list models`); found \"%.40s\"",
                family);
    arena_release(&arena);
    return false;
}

/* Sorts by number of parameters, largest first. Models of equal size stay in the order of their
 * names. */
static void sort_members(struct largest *largest)
{
    for (size_t i = 1; i < largest->num_members; i++)
        for (size_t j = i; j > 0; j--) {
            size_t *at = &largest->members[j];
            const struct model *model = &largest->presets[at[0]].model;
            const struct model *before = &largest->presets[at[-1]].model;
            if (model_parameters(model) <= model_parameters(before))
                break;
            size_t moved = at[0];
            at[0] = at[-1];
            at[-1] = moved;
        }
}

static bool is_layers(const struct largest *largest)
{
    return strcmp(largest->family, "layers") == 0;
}

static bool check_options(const struct options *options, const struct largest *largest,
                          struct err *err)
{
    if (is_layers(largest) && !options->model)
        return err_set(err, ERR_USAGE, "--model",
                       "is missing; --largest layers needs a model to copy the width from");
    if (!is_layers(largest) && options->model)
        return err_set(err, ERR_USAGE, "--model", "is chosen by --largest %.40s; omit one of them",
                       largest->family);
    if (options->search.pareto || options->search.deadline_s > 0)
        return err_set(err, ERR_USAGE, options->search.pareto ? "--pareto" : "--deadline",
                       "chooses the number of GPUs, but --largest chooses a model for all GPUs; "
                       "omit one of them");
    return true;
}

bool largest_name_model(struct options *options, struct largest *out, struct err *err)
{
    *out = (struct largest){ .family = options->search.largest };
    if (!out->family)
        return true;
    if (!check_options(options, out, err))
        return false;
    if (is_layers(out))
        return true;
    size_t count;
    out->presets = model_presets(&count, err);
    if (!out->presets)
        return false;
    out->members = arena_grow(NULL, count * sizeof *out->members);
    for (size_t i = 0; i < count; i++)
        if (is_member(out->presets[i].model.name, out->family))
            out->members[out->num_members++] = i;
    if (out->num_members == 0)
        return refuse_family(out->family, out->presets, count, err);
    sort_members(out);
    options->model = out->presets[out->members[0]].model.name;
    return true;
}

/* --- choosing the largest ----------------------------------------------------------------- */

/* Chooses the largest member that fits. If none fits, it chooses the smallest, so that its search
 * gives the reasons. */
static bool choose_member(struct largest *largest, struct options *options, struct setup *setup,
                          struct search_request *request, struct err *err)
{
    for (size_t i = 0; i < largest->num_members && !largest->fits && !largest->timed_out; i++) {
        if (i > 0) {
            setup_release(setup);
            options->model = largest->presets[largest->members[i]].model.name;
            if (!setup_load(options, NULL, setup, err))
                return false;
            request->base = setup->plan;
        }
        struct probe probe = probe_best(request, &setup->arena);
        largest->chosen = i;
        largest->fits = probe.fits;
        largest->timed_out = probe.timed_out || probe.was_interrupted;
    }
    return true;
}

static bool choose_layers(struct largest *largest, struct setup *setup,
                          struct search_request *request, struct err *err)
{
    struct depth depth;
    struct model *model = &setup->model;
    if (!search_depth(request, &depth, err))
        return false;
    largest->fits = depth.most > 0;
    largest->timed_out = depth.timed_out || depth.was_interrupted;
    if (!model_set_layers(model, depth.most > 0 ? depth.most : 1, err))
        return false;
    char name[sizeof model->name];
    snprintf(name, sizeof name, "%.40s-%d-layers", model->name, model->layers);
    snprintf(model->name, sizeof model->name, "%s", name);
    return true;
}

bool largest_choose(struct largest *largest, struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err)
{
    if (!largest->family)
        return true;
    struct progress_bar progress_bar;
    progress_bar_begin(&progress_bar, options, request);
    bool ok = is_layers(largest) ? choose_layers(largest, setup, request, err)
                                 : choose_member(largest, options, setup, request, err);
    progress_bar_end(&progress_bar);
    return ok;
}

void largest_release(struct largest *largest)
{
    free(largest->presets);
    free(largest->members);
}

/* --- output ------------------------------------------------------------------------------- */

/* The next larger member, which does not fit; NULL: none. */
static const struct model *next_larger(const struct largest *largest)
{
    if (is_layers(largest) || largest->chosen == 0 || !largest->fits)
        return NULL;
    return &largest->presets[largest->members[largest->chosen - 1]].model;
}

void show_largest(const struct setup *setup, const struct largest *largest)
{
    char parameters[32];
    if (!largest->family || !largest->fits)
        return;
    units_show_count(model_parameters(&setup->model), parameters, sizeof parameters);
    printf("LARGEST %s that %s %d GPU%s: %s, %s parameters",
           is_layers(largest) ? "of this shape" : largest->family,
           largest->timed_out ? "was found so far to fit" : "fits", setup->system.num_gpus,
           setup->system.num_gpus > 1 ? "s" : "", setup->model.name, parameters);
    const struct model *larger = next_larger(largest);
    if (larger)
        printf("; %s does not fit", larger->name);
    printf("\n");
}

void add_largest_json(json_t *object, const struct setup *setup, const struct largest *largest)
{
    if (!largest->family)
        return;
    json_t *found = json_object();
    const struct model *larger = next_larger(largest);
    json_object_set_new(found, "of", json_string(largest->family));
    json_object_set_new(found, "fits", json_boolean(largest->fits));
    json_object_set_new(found, "model", json_string(setup->model.name));
    json_object_set_new(found, "layers", json_integer(setup->model.layers));
    json_object_set_new(found, "params", number_json(model_parameters(&setup->model)));
    json_object_set_new(found, "next_larger", larger ? json_string(larger->name) : json_null());
    json_object_set_new(object, "largest", found);
}
