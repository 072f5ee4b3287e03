#include "models/corpus.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/length.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char texts_folder[] = "models/texts";

#define TEXT(member) \
#member, .offset = offsetof(struct corpus, member), .size = sizeof(((struct corpus *)0)->member)
const struct field corpus_fields[] = {
    { TEXT(name), .kind = FIELD_TEXT, .doc = "Name, that of the file; the text is NAME.txt." },
    { TEXT(summary), .kind = FIELD_TEXT, .doc = "Description, in one sentence." },
    { TEXT(source), .kind = FIELD_TEXT, .doc = "Where the text comes from." },
    { TEXT(licence), .kind = FIELD_TEXT,
      .doc = "Licence under which the text may be distributed." },
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of this form: 1." },
};
#undef TEXT
const size_t num_corpus_fields = LENGTH(corpus_fields);

/* --- shipped texts ------------------------------------------------------------------------ */

static bool read_corpus(const json_t *object, const char *file_name, struct corpus *out,
                        struct err *err)
{
    if (!fields_read(corpus_fields, num_corpus_fields, object, out, err))
        return false;
    if (json_integer_value(json_object_get(object, "format")) != 1)
        return err_set(err, ERR_INPUT, "format", "expected 1");
    return strcmp(out->name, file_name) == 0 ||
           err_set(err, ERR_INPUT, "name", "expected \"%s\", the name of the file; found \"%s\"",
                   file_name, out->name);
}

static bool load_corpus(const char *folder, const char *name, struct corpus *out, struct err *err)
{
    struct text path = { 0 };
    struct json_file file;
    text_add(&path, "%s/%s.json", folder, name);
    bool ok = json_file_load(&file, text_get(&path), err);
    text_release(&path);
    if (!ok)
        return false;
    ok = read_corpus(file.root, name, out, err) || json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

struct corpus *corpora(size_t *count, struct err *err)
{
    char folder[PATH_MAX];
    struct corpus *all = NULL;
    *count = 0;
    if (!file_data_folder(texts_folder, folder, sizeof folder)) {
        err_set(err, ERR_SYSTEM, texts_folder, "no such data folder; is SIMSEARCH_DATA right?");
        return NULL;
    }
    char **names = file_list_json(folder, count);
    bool ok = *count > 0 || err_set(err, ERR_SYSTEM, folder, "expected texts; found no JSON file");
    if (ok)
        all = arena_grow(NULL, *count * sizeof *all);
    for (size_t i = 0; i < *count; i++) {
        ok = ok && load_corpus(folder, names[i], &all[i], err);
        free(names[i]);
    }
    free(names);
    if (ok)
        return all;
    free(all);
    *count = 0;
    return NULL;
}

/* --- names -------------------------------------------------------------------------------- */

static bool copy_path(const char *from, char path[PATH_MAX], struct err *err)
{
    int length = snprintf(path, PATH_MAX, "%s", from);
    return (length >= 0 && length < PATH_MAX) ||
           err_set(err, ERR_USAGE, from, "a path has at most %d bytes", PATH_MAX - 1);
}

static bool shipped_path(const char *name, char path[PATH_MAX], struct err *err)
{
    char folder[PATH_MAX];
    struct text whole = { 0 };
    bool ok = file_data_folder(texts_folder, folder, sizeof folder) ||
              err_set(err, ERR_SYSTEM, texts_folder, "no such data folder");
    text_add(&whole, "%s/%s.txt", folder, name);
    ok = ok && copy_path(text_get(&whole), path, err);
    text_release(&whole);
    return ok;
}

static bool refuse_name(const char *name, const struct corpus *all, size_t count, struct err *err)
{
    const char **names = arena_grow(NULL, count * sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = all[i].name;
    const char *nearest = text_nearest(name, names, count);
    err_set(err, ERR_USAGE, name, "there is no such text or file; did you mean \"%s\"?",
            nearest ? nearest : names[0]);
    free(names);
    return false;
}

bool corpus_path(const char *name, char path[PATH_MAX], struct err *err)
{
    if (file_is_path(name, ".txt")) /* no shipped text has such a name */
        return copy_path(name, path, err);
    size_t count;
    struct corpus *all = corpora(&count, err);
    bool is_shipped = false;
    for (size_t i = 0; i < count; i++)
        is_shipped |= strcmp(all[i].name, name) == 0;
    bool ok = all != NULL;
    if (ok && is_shipped)
        ok = shipped_path(name, path, err);
    else if (ok && file_exists(name))
        ok = copy_path(name, path, err);
    else if (ok)
        ok = refuse_name(name, all, count, err);
    free(all);
    return ok;
}
