#include "cli/input/planfile.h"

#include "base/file.h"
#include "base/length.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char *const keys[] = { "format", "layout",  "model", "cluster",
                                    "gpu",    "profile", "stack", "prediction" };

static bool check(const json_t *root, struct err *err)
{
    const json_t *format = json_object_get(root, "format");
    if (!json_only_keys(root, keys, LENGTH(keys), err))
        return false;
    if (!json_is_integer(format) || json_integer_value(format) != 1)
        return err_set(err, ERR_INPUT, "format", "expected 1, the only version of a plan file%s",
                       format ? "" : "; the key is missing");
    if (!json_is_string(json_object_get(root, "layout")))
        return err_set(err, ERR_INPUT, "layout", "expected text, like \"tp8 pp8 dp16 mb1\"");
    for (size_t i = 2; i < LENGTH(keys); i++) {
        const json_t *part = json_object_get(root, keys[i]);
        if (part && !json_is_object(part) && !json_is_string(part))
            return err_set(err, ERR_INPUT, keys[i], "expected an object or a name");
    }
    return true;
}

/* If the file is a document of `search --json` or `simulate --json`, replaces it by the plan that
 * it contains. */
static void unwrap(struct json_file *file)
{
    const json_t *best = json_object_get(file->root, "best");
    json_t *plan = json_object_get(best ? best : file->root, "plan");
    if (!json_is_object(plan))
        return;
    json_incref(plan);
    json_decref(file->root);
    file->root = plan;
}

bool planfile_open(struct json_file *file, const char *path, struct err *err)
{
    if (!json_file_load(file, path, err))
        return false;
    unwrap(file);
    if (check(file->root, err))
        return true;
    json_file_blame(file, err);
    json_file_release(file);
    return false;
}

const json_t *planfile_part(const struct json_file *file, const char *key)
{
    const json_t *part = json_object_get(file->root, key);
    return json_is_object(part) ? part : NULL;
}

const char *planfile_name(const struct json_file *file, const char *key)
{
    return json_string_value(json_object_get(file->root, key));
}

bool planfile_blame(const struct json_file *file, const char *key, struct err *err)
{
    if (err->code == ERR_USAGE)
        err->code = ERR_INPUT;
    if (err->code == ERR_INPUT) {
        err_within(err, key);
        json_file_blame(file, err);
    }
    return false;
}

json_t *planfile_json(const struct system *system, const struct model *model,
                      const struct plan *plan, json_t *prediction)
{
    struct text layout = { 0 };
    plan_write(plan, &layout);
    json_t *object = json_object();
    json_object_set_new(object, "format", json_integer(1));
    json_object_set_new(object, "layout", json_string(text_get(&layout)));
    json_object_set_new(object, "model", model_write(model));
    json_object_set_new(object, "cluster", cluster_write(&system->cluster));
    json_object_set_new(object, "gpu", gpu_write(&system->gpu));
    json_object_set_new(object, "profile", profile_write(&system->profile));
    json_object_set_new(object, "stack", stack_write(&system->stack));
    if (prediction)
        json_object_set_new(object, "prediction", prediction);
    text_release(&layout);
    return object;
}

bool planfile_write(const char *path, const json_t *plan, struct err *err)
{
    struct text file = { 0 };
    char *json = json_text(plan, 2);
    text_add(&file, "%s\n", json);
    free(json);
    bool ok = file_write(path, file.at, file.length, err);
    text_release(&file);
    return ok;
}
