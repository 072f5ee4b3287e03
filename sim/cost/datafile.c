/* Finds and reads the JSON files of GPUs, clusters, profiles and stacks. */
#include "sim/cost/datafile.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "sim/cost/hardware.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FORMAT = 1 };

/* The JSON files of a data folder. */
struct listing {
    char folder[PATH_MAX];
    char **names;
    size_t count;
};

static bool listing_init(struct listing *listing, const char *folder, struct err *err)
{
    *listing = (struct listing){ .count = 0 };
    if (!file_data_folder(folder, listing->folder, sizeof listing->folder))
        return err_set(err, ERR_SYSTEM, folder, "no such data folder; is SIMSEARCH_DATA right?");
    listing->names = file_list_json(listing->folder, &listing->count);
    return true;
}

static void listing_release(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->names[i]);
    free(listing->names);
}

/* The file with that name; NULL if there is none. */
static const char *listing_find(const struct listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcasecmp(listing->names[i], name) == 0)
            return listing->names[i];
    return NULL;
}

static bool listing_open(const struct listing *listing, const char *name, struct json_file *file,
                         struct err *err)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s.json", listing->folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return err_set(err, ERR_SYSTEM, listing->folder, "the path of %s is too long", name);
    return json_file_load(file, path, err);
}

static bool has_word(const json_t *root, const char *word)
{
    const json_t *words = json_object_get(root, "words");
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *text = json_string_value(json_array_get(words, i));
        if (text && strcasecmp(text, word) == 0)
            return true;
    }
    return false;
}

/* Finds the file in `words_folder` whose `words` contain this alias, and copies its name to `name`.
 * A file that cannot be read is skipped here; opening it by name reports the error. */
static bool find_word(const char *words_folder, const char *word, char *name, size_t size)
{
    struct err ignored = { 0 };
    struct listing listing;
    bool found = false;
    if (!words_folder || !listing_init(&listing, words_folder, &ignored))
        return false;
    for (size_t i = 0; i < listing.count && !found; i++) {
        struct json_file file = { 0 };
        struct err unreadable = { 0 };
        found = listing_open(&listing, listing.names[i], &file, &unreadable) &&
                has_word(file.root, word);
        if (found)
            snprintf(name, size, "%s", listing.names[i]);
        json_file_release(&file);
    }
    listing_release(&listing);
    return found;
}

static bool refuse_name(const struct datafile_kind *kind, const struct listing *listing,
                        const char *name, struct err *err)
{
    const char *const *names = (const char *const *)listing->names;
    const char *nearest = text_nearest(name, names, listing->count);
    if (nearest)
        return err_set(err, ERR_USAGE, name, "there is no such %s or file; did you mean \"%s\"?",
                       kind->noun, nearest);
    return err_set(err, ERR_USAGE, name, "there is no such %s or file; see %s", kind->noun,
                   kind->folder);
}

static bool check_name(const json_t *root, const char *name, struct err *err)
{
    const char *found = json_string_value(json_object_get(root, "name"));
    if (found && strcmp(found, name) == 0)
        return true;
    return err_set(err, ERR_INPUT, "name", "expected \"%s\", the name of the file; found \"%.80s\"",
                   name, found ? found : "");
}

static bool open_listed(const struct listing *listing, const char *name, struct json_file *file,
                        struct err *err)
{
    return listing_open(listing, name, file, err) &&
           (check_name(file->root, name, err) || json_file_blame(file, err));
}

static bool open_by_name(const struct datafile_kind *kind, const char *name, struct json_file *file,
                         struct err *err)
{
    char word_of[NAME_MAX + 1];
    struct listing listing;
    if (!listing_init(&listing, kind->folder, err))
        return false;
    const char *found = listing_find(&listing, name);
    if (!found && find_word(kind->words_folder, name, word_of, sizeof word_of))
        found = listing_find(&listing, word_of);
    bool ok =
        found ? open_listed(&listing, found, file, err) : refuse_name(kind, &listing, name, err);
    listing_release(&listing);
    return ok;
}

bool datafile_open(const struct datafile_kind *kind, const char *name, struct json_file *file,
                   struct err *err)
{
    *file = (struct json_file){ 0 };
    bool ok = file_is_path(name, ".json") ? json_file_load(file, name, err)
                                          : open_by_name(kind, name, file, err);
    if (!ok)
        json_file_release(file);
    return ok;
}

static bool check_format(const json_t *format, struct err *err)
{
    if (json_is_integer(format) && json_integer_value(format) == FORMAT)
        return true;
    char *found = json_text(format, 0);
    err_set(err, ERR_INPUT, "format", "expected %d; found %.40s", FORMAT, found ? found : "?");
    free(found);
    return false;
}

static bool check_sources(const struct field *fields, size_t n, const json_t *sources,
                          struct err *err)
{
    if (!sources)
        return true;
    if (!json_is_object(sources))
        return err_set(err, ERR_INPUT, "sources", "expected an object of texts");
    const char **names = arena_grow(NULL, n * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[i] = fields[i].name;
    bool ok = json_only_keys(sources, names, n, err);
    for (size_t i = 0; i < n && ok; i++) {
        const json_t *source = json_object_get(sources, names[i]);
        if (source && !json_is_string(source))
            ok = err_set(err, ERR_INPUT, names[i], "expected a text that states the source");
    }
    if (!ok)
        err_prefix(err, "sources.");
    free(names);
    return ok;
}

/* Residuals are not read by the program, so they only have to be an object. */
static bool check_residuals(const json_t *residuals, struct err *err)
{
    return !residuals || json_is_object(residuals) ||
           err_set(err, ERR_INPUT, "residuals", "expected an object with the residuals of fits");
}

bool datafile_check(const struct field *fields, size_t n, const json_t *object, struct err *err)
{
    return check_format(json_object_get(object, "format"), err) &&
           check_sources(fields, n, json_object_get(object, "sources"), err) &&
           check_residuals(json_object_get(object, "residuals"), err);
}

json_t *datafile_write(const struct field *fields, size_t n, const void *in)
{
    json_t *object = json_pack("{s:i}", "format", FORMAT);
    json_t *rest = fields_write(fields, n, in);
    json_object_update(object, rest);
    json_decref(rest);
    return object;
}

static bool fitted_read_row(const json_t *value, size_t index, char (*row)[40], struct err *err)
{
    const char *text = json_plain_text(value);
    char where[48];
    snprintf(where, sizeof where, "fitted_on[%zu]", index);
    if (!text || !*text)
        return err_set(err, ERR_INPUT, where, "expected the id of a measured row, or its source");
    if (strlen(text) >= sizeof *row)
        return err_set(err, ERR_INPUT, where, "expected at most %zu bytes; found %zu",
                       sizeof *row - 1, strlen(text));
    memcpy(*row, text, strlen(text));
    return true;
}

bool fitted_read(const json_t *list, char (**rows)[40], int *num_rows, struct err *err)
{
    *rows = NULL;
    *num_rows = 0;
    size_t count = json_array_size(list);
    if (list && !json_is_array(list))
        return err_set(err, ERR_INPUT, "fitted_on", "expected a list of texts");
    if (count > MAX_FITTED)
        return err_set(err, ERR_INPUT, "fitted_on", "expected at most %d rows; found %zu",
                       MAX_FITTED, count);
    if (count == 0)
        return true;
    char(*read)[40] = arena_grow(NULL, count * sizeof *read);
    memset(read, 0, count * sizeof *read);
    for (size_t i = 0; i < count; i++)
        if (!fitted_read_row(json_array_get(list, i), i, &read[i], err)) {
            free(read);
            return false;
        }
    *rows = read;
    *num_rows = (int)count;
    return true;
}

json_t *fitted_write(char (*rows)[40], int num_rows)
{
    json_t *list = json_array();
    for (int i = 0; i < num_rows; i++)
        json_array_append_new(list, json_string(rows[i]));
    return list;
}
