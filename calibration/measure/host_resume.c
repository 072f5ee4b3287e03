/* A file with the measurements of an interrupted calibration, from which the next one resumes. */
#include "calibration/measure/host_resume.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host_resume {
    const char *path;
    json_t *header; /* the first line, which names the grid of shapes */
    json_t *shapes; /* each measured shape's ops; the key is the shape's number as text */
};

static json_t *header_of(const struct host_shapes *shapes)
{
    json_t *names = json_array();
    for (int i = 0; i < shapes->count; i++)
        json_array_append_new(names, json_string(shapes->at[i].model.name));
    return names;
}

/* --- the file ------------------------------------------------------------------------------ */

static bool append(const struct host_resume *resume, const char *mode, const json_t *line,
                   struct err *err)
{
    FILE *file = resume->path ? fopen(resume->path, mode) : NULL;
    if (!resume->path)
        return true;
    bool ok = file && json_dumpf(line, file, JSON_COMPACT) == 0 && fputc('\n', file) != EOF;
    ok = (!file || fclose(file) == 0) && ok;
    return ok || err_set(err, ERR_SYSTEM, resume->path, "cannot be written: %s", strerror(errno));
}

/* False when the file is missing or was written for another grid. */
static bool read_lines(struct host_resume *resume)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = resume->path ? fopen(resume->path, "r") : NULL;
    bool is_same = false;
    for (int i = 0; file && getline(&line, &room, file) > 0; i++) {
        json_t *read = json_loads(line, 0, NULL);
        is_same = i == 0 ? json_equal(read, resume->header) : is_same;
        if (i > 0 && is_same && json_is_object(read))
            json_object_update(resume->shapes, read);
        json_decref(read);
    }
    free(line);
    if (file)
        fclose(file);
    return is_same;
}

struct host_resume *host_resume_open(const char *path, const struct host_shapes *shapes,
                                     struct err *err)
{
    struct host_resume *resume = arena_grow(NULL, sizeof *resume);
    *resume = (struct host_resume){ path, header_of(shapes), json_object() };
    if (read_lines(resume) || append(resume, "w", resume->header, err))
        return resume;
    host_resume_close(resume);
    return NULL;
}

void host_resume_close(struct host_resume *resume)
{
    if (!resume)
        return;
    json_decref(resume->header);
    json_decref(resume->shapes);
    free(resume);
}

/* --- ops ----------------------------------------------------------------------------------- */

static json_t *op_json(const struct host_op *op)
{
    return json_pack("[i, i, s, [f, f, f, f], [f, f, f]]", op->kind, op->pass, op->variant,
                     op->size[0], op->size[1], op->size[2], op->size[3], op->time.median_s,
                     op->time.p10_s, op->time.p90_s);
}

static bool read_op(const json_t *json, struct arena *arena, struct host_op *op)
{
    const char *variant;
    struct host_time *time = &op->time;
    if (json_unpack((json_t *)json, "[i, i, s, [F, F, F, F], [F, F, F]]", &op->kind, &op->pass,
                    &variant, &op->size[0], &op->size[1], &op->size[2], &op->size[3],
                    &time->median_s, &time->p10_s, &time->p90_s) != 0)
        return false;
    op->variant = arena_text(arena, variant);
    return op->kind >= 0 && op->kind < NUM_KERNEL_KINDS && op->pass >= 0 &&
           op->pass <= PASS_BACKWARD_WEIGHT;
}

static void key_of(int shape, char key[16])
{
    snprintf(key, 16, "%d", shape);
}

bool host_resume_take(const struct host_resume *resume, int shape, struct arena *arena,
                      struct host_ops *ops)
{
    char key[16];
    key_of(shape, key);
    const json_t *known = json_object_get(resume->shapes, key);
    int count = ops->count;
    for (size_t i = 0; i < json_array_size(known); i++) {
        if (count == ops->room || !read_op(json_array_get(known, i), arena, &ops->at[count]))
            return false;
        count++;
    }
    ops->count = count;
    return json_array_size(known) > 0;
}

bool host_resume_keep(struct host_resume *resume, int shape, const struct host_ops *ops, int first,
                      struct err *err)
{
    char key[16];
    json_t *list = json_array();
    key_of(shape, key);
    for (int i = first; i < ops->count; i++)
        json_array_append_new(list, op_json(&ops->at[i]));
    json_t *line = json_pack("{s:o}", key, list);
    bool ok = append(resume, "a", line, err);
    json_decref(line);
    return ok;
}
