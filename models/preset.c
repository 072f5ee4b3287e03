/* Loads models: the presets shipped in models/presets, files in the same form, and Hugging Face's
 * config.json. */
#include "models/model.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALIASES = 4 };
_Static_assert(sizeof((struct model_preset *)0)->aliases == MAX_ALIASES * 32,
               "MAX_ALIASES is the size in model.h");

/* The names of a preset: its own name, then its aliases; NULL past the last. */
static const char *preset_name(const struct model_preset *preset, int index)
{
    if (index == 0)
        return preset->model.name;
    if (index > MAX_ALIASES || !preset->aliases[index - 1][0])
        return NULL;
    return preset->aliases[index - 1];
}

static const struct model_preset *preset_find(const struct model_preset *presets, size_t count,
                                              const char *name)
{
    for (size_t i = 0; i < count; i++)
        for (int j = 0; preset_name(&presets[i], j); j++)
            if (strcmp(preset_name(&presets[i], j), name) == 0)
                return &presets[i];
    return NULL;
}

static bool read_alias(const json_t *alias, char *out, size_t size, struct err *err)
{
    const char *text = json_plain_text(alias);
    if (!text || !*text || strlen(text) >= size)
        return err_set(err, ERR_INPUT, "aliases", "expected names of 1 to %zu letters", size - 1);
    snprintf(out, size, "%s", text);
    return true;
}

static bool read_aliases(const json_t *object, struct model_preset *out, struct err *err)
{
    const json_t *aliases = json_object_get(object, "aliases");
    if (aliases && (!json_is_array(aliases) || json_array_size(aliases) > MAX_ALIASES))
        return err_set(err, ERR_INPUT, "aliases", "expected an array of at most %d names",
                       MAX_ALIASES);
    for (size_t i = 0; i < json_array_size(aliases); i++)
        if (!read_alias(json_array_get(aliases, i), out->aliases[i], sizeof out->aliases[i], err))
            return false;
    return true;
}

/* A user's file states its format version, so that later programs know how to read it. */
static bool read_file_form(const json_t *object, struct model *out, struct err *err)
{
    if (!json_object_get(object, "format"))
        return err_set(err, ERR_INPUT, "format", "expected 1; the key is missing");
    return model_read(object, out, err);
}

static bool read_preset(const json_t *object, const char *file_name, struct model_preset *out,
                        struct err *err)
{
    if (!read_file_form(object, &out->model, err) || !read_aliases(object, out, err))
        return false;
    if (strcmp(out->model.name, file_name) != 0)
        return err_set(err, ERR_INPUT, "name",
                       "expected \"%s\", the name of the file; found \"%s\"", file_name,
                       out->model.name);
    return true;
}

/* Checks that no name of `preset` occurs twice, in itself or in earlier presets. */
static bool check_names(const struct model_preset *presets, size_t count,
                        const struct model_preset *preset, struct err *err)
{
    for (int i = 0; preset_name(preset, i); i++) {
        const char *name = preset_name(preset, i);
        const struct model_preset *other = preset_find(presets, count, name);
        bool is_repeated = false;
        for (int j = 0; j < i; j++)
            is_repeated |= strcmp(preset_name(preset, j), name) == 0;
        if (other || is_repeated)
            return err_set(err, ERR_INPUT, i > 0 ? "aliases" : "name",
                           "expected a name that occurs once; \"%s\" is also a name of %s", name,
                           (other ? other : preset)->model.name);
    }
    return true;
}

/* Reads presets[count] and checks its names against earlier presets. */
static bool load_preset(const char *folder, const char *name, struct model_preset *presets,
                        size_t count, struct err *err)
{
    struct text path = { 0 };
    text_add(&path, "%s/%s.json", folder, name);
    struct json_file file;
    bool is_loaded = json_file_load(&file, text_get(&path), err);
    text_release(&path);
    if (!is_loaded)
        return false;
    bool ok = read_preset(file.root, name, &presets[count], err) &&
              check_names(presets, count, &presets[count], err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

static bool load_presets(const char *folder, char *const *names, size_t count,
                         struct model_preset *presets, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (!load_preset(folder, names[i], presets, i, err))
            return false;
    return true;
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

struct model_preset *model_presets(size_t *count, struct err *err)
{
    char folder[PATH_MAX];
    *count = 0;
    if (!file_data_folder("models/presets", folder, sizeof folder)) {
        err_set(err, ERR_SYSTEM, "models/presets", "no such data folder; is SIMSEARCH_DATA right?");
        return NULL;
    }
    size_t num_names;
    char **names = file_list_json(folder, &num_names);
    struct model_preset *presets = NULL;
    if (num_names == 0) {
        err_set(err, ERR_SYSTEM, folder, "expected presets of models; found no JSON file");
        goto done;
    }
    presets = arena_grow(NULL, num_names * sizeof *presets);
    memset(presets, 0, num_names * sizeof *presets);
    if (load_presets(folder, names, num_names, presets, err)) {
        *count = num_names;
    } else {
        free(presets);
        presets = NULL;
    }
done:
    free_names(names, num_names);
    return presets;
}

/* Files of transformers have model_type and architectures; files in the preset form have
 * `format`. */
static bool is_huggingface(const json_t *object)
{
    return !json_object_get(object, "format") &&
           (json_object_get(object, "model_type") || json_object_get(object, "architectures"));
}

static bool load_file(const char *path, struct model *out, struct err *err)
{
    struct json_file file;
    if (!json_file_load(&file, path, err))
        return false;
    bool ok = is_huggingface(file.root) ? model_from_huggingface(file.root, out, err)
                                        : read_file_form(file.root, out, err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

/* Loads a file, or the config.json of a transformers folder. */
static bool load_path(const char *path, struct model *out, struct err *err)
{
    if (!file_is_folder(path))
        return load_file(path, out, err);
    struct text config = { 0 };
    text_add(&config, "%s/config.json", path);
    bool ok = load_file(text_get(&config), out, err);
    text_release(&config);
    return ok;
}

static bool refuse_name(const char *name, const struct model_preset *presets, size_t count,
                        struct err *err)
{
    const char **names = arena_grow(NULL, count * (MAX_ALIASES + 1) * sizeof *names);
    size_t num_names = 0;
    for (size_t i = 0; i < count; i++)
        for (int j = 0; preset_name(&presets[i], j); j++)
            names[num_names++] = preset_name(&presets[i], j);
    const char *nearest = text_nearest(name, names, num_names);
    if (nearest)
        err_set(err, ERR_USAGE, name, "there is no such model or file; did you mean \"%s\"?",
                nearest);
    else
        err_set(err, ERR_USAGE, name,
                "there is no such model or file; expected a preset or a path");
    free(names);
    return false;
}

/* Finds the preset whose own name is `name`, by its file alone; `found` stays false if there is
 * none. False on an error. */
static bool load_own_name(const char *name, struct model *out, bool *found, struct err *err)
{
    char folder[PATH_MAX];
    struct text path = { 0 };
    *found = false;
    if (!*name || !file_data_folder("models/presets", folder, sizeof folder))
        return true;
    text_add(&path, "%s/%s.json", folder, name);
    *found = file_exists(text_get(&path));
    text_release(&path);
    struct model_preset preset = { 0 };
    if (*found && !load_preset(folder, name, &preset, 0, err))
        return false;
    if (*found)
        *out = preset.model;
    return true;
}

bool model_load(const char *name, struct model *out, struct err *err)
{
    if (file_is_path(name, ".json")) /* no preset has such a name */
        return load_path(name, out, err);
    bool is_found;
    if (!load_own_name(name, out, &is_found, err))
        return false;
    if (is_found)
        return true;
    size_t count;
    struct model_preset *presets = model_presets(&count, err);
    if (!presets)
        return false;
    const struct model_preset *preset = preset_find(presets, count, name);
    bool ok = true;
    if (preset)
        *out = preset->model;
    else
        ok = file_exists(name) || file_is_folder(name) ? load_path(name, out, err)
                                                       : refuse_name(name, presets, count, err);
    free(presets);
    return ok;
}
