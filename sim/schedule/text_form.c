/* Reads and writes schedules as text. A pair is a forward and a backward that run as one unit. In a
 * V, chunks are placed down the stages and back up; in a mirrored placement there is a second copy
 * of the model in the opposite order. */
#include "sim/schedule/text_form.h"

#include "sim/schedule/schedule.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Larger numbers are errors. The limit keeps sums and products within an int. */
enum { MAX_NUMBER = 1000000 };

void instr_write(const struct instr *instr, struct text *out)
{
    const struct opcode_info *info = &opcode_infos[instr->op];
    text_add(out, "%s", info->text);
    for (const char *form = info->form; *form; form++) {
        if (*form == 'c')
            text_add(out, "%d", instr->chunk);
        else if (*form == 'm')
            text_add(out, "%d", instr->microbatch);
        else if (*form == 'p')
            text_add(out, "%d", instr->peer);
        else
            text_add(out, "%c", *form);
    }
    if (instr->is_paired && instr->op == INSTR_FORWARD)
        text_add(out, "&");
    if (instr->after != NO_INSTR)
        text_add(out, "@%d", instr->after);
}

void schedule_write(const struct schedule *schedule, struct text *out)
{
    for (int stage = 0; stage < schedule->shape.num_stages; stage++) {
        const struct instrs *list = &schedule->ranks[stage];
        text_add(out, "%d:", stage);
        for (int i = 0; i < list->count; i++) {
            text_add(out, " ");
            instr_write(&list->at[i], out);
        }
        text_add(out, "\n");
    }
}

struct reader {
    const char *at;
    int line;
    struct err *err;
};

static int word_length(const char *word)
{
    return (int)strcspn(word, " \t\r\n");
}

static bool fail(const struct reader *in, const char *word, const char *expected)
{
    char where[32];
    snprintf(where, sizeof where, "line %d", in->line);
    int length = word_length(word);
    if (length == 0)
        return err_set(in->err, ERR_INPUT, where, "expected %s, found the end of the line",
                       expected);
    return err_set(in->err, ERR_INPUT, where, "expected %s, found \"%.*s\"", expected,
                   length < 40 ? length : 40, word);
}

/* Reads digits without sign or leading zeros, as schedule_write writes them. */
static bool read_number(const char **at, int *out)
{
    const char *digits = *at;
    if (!isdigit((unsigned char)digits[0]) ||
        (digits[0] == '0' && isdigit((unsigned char)digits[1])))
        return false;
    long number = 0;
    for (; isdigit((unsigned char)**at); ++*at) {
        number = 10 * number + (**at - '0');
        if (number > MAX_NUMBER)
            return false;
    }
    *out = (int)number;
    return true;
}

static bool read_opcode(const char **at, enum opcode *out)
{
    size_t letters = strspn(*at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    for (int op = 0; op < NUM_OPCODES; op++) {
        const char *text = opcode_infos[op].text;
        if (strlen(text) == letters && strncmp(text, *at, letters) == 0) {
            *at += letters;
            *out = (enum opcode)op;
            return true;
        }
    }
    return false;
}

static bool read_form(const char **at, struct instr *out)
{
    for (const char *form = opcode_infos[out->op].form; *form; form++) {
        int *number = *form == 'c'   ? &out->chunk
                      : *form == 'm' ? &out->microbatch
                      : *form == 'p' ? &out->peer
                                     : NULL;
        if (number ? !read_number(at, number) : *(*at)++ != *form)
            return false;
    }
    return true;
}

static bool read_instr(struct reader *in, struct instr *out)
{
    const char *word = in->at;
    *out = (struct instr){ .chunk = -1, .microbatch = -1, .peer = -1, .after = NO_INSTR };
    if (!read_opcode(&in->at, &out->op))
        return fail(in, word, "an opcode");
    char expected[64];
    snprintf(expected, sizeof expected, "%s%s, optionally followed by @after",
             opcode_infos[out->op].text, opcode_infos[out->op].form);
    if (!read_form(&in->at, out))
        return fail(in, word, expected);
    out->is_paired = out->op == INSTR_FORWARD && *in->at == '&';
    in->at += out->is_paired;
    if (*in->at == '@') {
        in->at++;
        if (!read_number(&in->at, &out->after))
            return fail(in, word, expected);
    }
    return word_length(in->at) == 0 || fail(in, word, expected);
}

static void skip_blanks(struct reader *in)
{
    in->at += strspn(in->at, " \t\r");
}

static bool read_label(struct reader *in, int stage)
{
    const char *word = in->at;
    int found;
    if (read_number(&in->at, &found) && found == stage && *in->at == ':') {
        in->at++;
        return true;
    }
    char expected[32];
    snprintf(expected, sizeof expected, "\"%d:\"", stage);
    return fail(in, word, expected);
}

static int count_words(const char *line)
{
    int words = 0;
    for (line += strspn(line, " \t\r"); word_length(line) > 0; line += strspn(line, " \t\r")) {
        words++;
        line += word_length(line);
    }
    return words;
}

static bool read_list(struct reader *in, struct instrs *out, struct arena *arena)
{
    out->at = ARENA_ARRAY(arena, struct instr, (size_t)count_words(in->at));
    for (skip_blanks(in); word_length(in->at) > 0; skip_blanks(in))
        if (!read_instr(in, &out->at[out->count++]))
            return false;
    return true;
}

/* Moves to the next line that is not blank; false at the end of the text. */
static bool next_line(struct reader *in)
{
    for (skip_blanks(in); *in->at == '\n'; skip_blanks(in)) {
        in->at++;
        in->line++;
    }
    return *in->at != '\0';
}

static int count_lines(const char *text)
{
    struct reader in = { .at = text };
    int lines = 0;
    for (; next_line(&in); in.at += strcspn(in.at, "\n"))
        lines++;
    return lines;
}

static bool is_message(const struct instr *instr)
{
    return instr->peer >= 0 && instr->chunk >= 0;
}

/* Index of a stage's first forward in this round, or the length of its list. */
static int first_forward(const struct schedule *schedule, int stage, int round)
{
    const struct instrs *list = &schedule->ranks[stage];
    int i = 0;
    while (i < list->count && (list->at[i].op != INSTR_FORWARD ||
                               list->at[i].chunk / schedule->shape.num_stages != round))
        i++;
    return i;
}

/* The text marks only the forward of a pair; this marks the backward too. */
static void infer_pairs(struct schedule *schedule)
{
    for (int stage = 0; stage < schedule->shape.num_stages; stage++) {
        bool is_open = false;
        for (int i = 0; i < schedule->ranks[stage].count; i++) {
            struct instr *instr = &schedule->ranks[stage].at[i];
            if (instr_lane(instr) != LANE_COMPUTE || instr->op == INSTR_RECOMPUTE)
                continue;
            if (is_open)
                instr->is_paired = true;
            is_open = instr->is_paired && instr->op == INSTR_FORWARD;
        }
    }
}

/* The text does not state the placement. It follows from the forwards that are on another stage
 * than they would be if all rounds went down the stages. In a V a microbatch runs in the first
 * round before the second; in a mirrored placement it need not. */
static void infer_rule(struct schedule *schedule)
{
    int stages = schedule->shape.num_stages;
    struct placement down = { stages, schedule->shape.chunks_per_stage, NULL };
    for (int stage = 0; stage < stages; stage++)
        for (int i = 0; i < schedule->ranks[stage].count; i++) {
            const struct instr *instr = &schedule->ranks[stage].at[i];
            if (instr->op == INSTR_FORWARD && placement_stage(down, instr->chunk) != stage)
                schedule->rule = &placement_v;
        }
    if (schedule->rule &&
        first_forward(schedule, stages - 1, 1) < first_forward(schedule, stages - 1, 0))
        schedule->rule = &placement_mirrored;
    struct placement placement = schedule_placement(schedule);
    for (int stage = 0; schedule->rule && stage < stages; stage++)
        for (int i = 0; i < schedule->ranks[stage].count; i++) {
            struct instr *instr = &schedule->ranks[stage].at[i];
            instr->is_turned =
                is_message(instr) &&
                placement_direction(placement, placement_round(placement, instr->chunk)) ==
                    DIRECTION_UP;
        }
}

/* The text does not state the shape. It follows from the highest chunk and microbatch. */
static void infer_shape(struct schedule *schedule)
{
    struct schedule_shape *shape = &schedule->shape;
    int last_chunk = 0;
    for (int stage = 0; stage < shape->num_stages; stage++)
        for (int i = 0; i < schedule->ranks[stage].count; i++) {
            const struct instr *instr = &schedule->ranks[stage].at[i];
            if (instr->chunk > last_chunk)
                last_chunk = instr->chunk;
            if (instr->microbatch >= shape->num_microbatches)
                shape->num_microbatches = instr->microbatch + 1;
        }
    shape->chunks_per_stage = placement_round(schedule_placement(schedule), last_chunk) + 1;
}

struct schedule *schedule_parse(const char *text, struct arena *arena, struct err *err)
{
    struct reader in = { .at = text, .line = 1, .err = err };
    struct schedule *schedule = ARENA_NEW(arena, struct schedule);
    int lines = count_lines(text);
    schedule->ranks = ARENA_ARRAY(arena, struct instrs, (size_t)lines);
    for (int stage = 0; stage < lines; stage++) {
        next_line(&in);
        if (!read_label(&in, stage) || !read_list(&in, &schedule->ranks[stage], arena))
            return NULL;
    }
    schedule->shape.num_stages = lines;
    if (lines == 0) {
        err_set(err, ERR_INPUT, "line 1", "expected \"0:\", found the end of the text");
        return NULL;
    }
    infer_pairs(schedule);
    infer_rule(schedule);
    infer_shape(schedule);
    return schedule;
}
