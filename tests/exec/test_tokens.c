/* Tests the training data of a step. */
#include "exec/tokens.h"

#include "tests/check_ok.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEQ = 8, COUNT = 6 };

static char path[] = "/tmp/test_tokens.XXXXXX";
static int64_t ids[COUNT * SEQ], targets[COUNT * SEQ];

/* Opens a source on a file with the bytes 200, 201 ... */
static bool open_text(size_t bytes, long vocab, struct token_source *out, struct err *err)
{
    unsigned char text[64];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(200 + i);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    close(fd);
    bool ok = token_source_open(path, vocab, SEQ, 5, out, err);
    unlink(path);
    return ok;
}

static void check_targets(void)
{
    for (int i = 0; i < COUNT; i++)
        for (int t = 0; t + 1 < SEQ; t++)
            ck_assert_int_eq(targets[i * SEQ + t], ids[i * SEQ + t + 1]);
}

/* A sequence can begin at one place in a text of SEQ + 1 bytes, and at two places if the text has
 * one byte more. With 40 bytes more the drawn sequences begin at several different places. */
START_TEST(a_sequence_is_a_piece_of_the_text)
{
    static const size_t more[] = { 0, 1, 40 };
    for (size_t i = 0; i < LENGTH(more); i++) {
        struct token_source source;
        struct err err = { 0 };
        int64_t first = 300, last = 0;
        check_ok(open_text(SEQ + 1 + more[i], 256, &source, &err), &err);
        for (uint32_t step = 0; step < 20; step++) {
            tokens_of(&source, step, 3, COUNT, ids, targets);
            check_targets();
            for (int k = 0; k < COUNT * SEQ; k++) {
                ck_assert_int_eq(targets[k], ids[k] + 1);
                ck_assert_int_eq(ids[k], ids[k - k % SEQ] + k % SEQ);
            }
            for (int k = 0; k < COUNT; k++) {
                first = ids[k * SEQ] < first ? ids[k * SEQ] : first;
                last = ids[k * SEQ] > last ? ids[k * SEQ] : last;
            }
        }
        ck_assert_int_eq(first, 200);
        ck_assert_int_eq(last, 200 + (int)more[i]);
        token_source_close(&source);
        ck_assert_ptr_null(source.bytes);
    }
}
END_TEST

/* A rank that reads only a part of a step's batch gets the same sequences as in the whole batch. If
 * the step, the sequence's index in the batch, or the seed differs, the sequences differ. */
START_TEST(a_sequence_depends_on_step_index_and_seed_alone)
{
    struct token_source source = { .vocab = 1000, .seq = SEQ, .seed = 5 };
    int64_t some[SEQ], their_targets[SEQ];
    tokens_of(&source, 7, 10, COUNT, ids, targets);
    check_targets();
    for (int i = 0; i < COUNT; i++) {
        tokens_of(&source, 7, 10 + i, 1, some, their_targets);
        ck_assert_mem_eq(some, ids + i * SEQ, sizeof some);
        ck_assert_mem_eq(their_targets, targets + i * SEQ, sizeof some);
        tokens_of(&source, 8, 10 + i, 1, some, their_targets);
        ck_assert_mem_ne(some, ids + i * SEQ, sizeof some);
        ck_assert(i == 0 || memcmp(ids, ids + i * SEQ, sizeof some) != 0);
    }
    source.seed = 6;
    tokens_of(&source, 7, 10, 1, some, their_targets);
    ck_assert_mem_ne(some, ids, sizeof some);
    for (int i = 0; i < COUNT * SEQ; i++)
        ck_assert(ids[i] >= 0 && ids[i] < source.vocab);
}
END_TEST

START_TEST(a_text_needs_a_sequence_and_a_vocabulary_of_bytes)
{
    struct token_source source;
    struct err few = { 0 }, brief = { 0 }, none = { 0 };
    ck_assert(!open_text(SEQ + 1, 255, &source, &few));
    ck_assert_int_eq(few.code, ERR_INPUT);
    ck_assert_str_eq(few.where, path);
    ck_assert_str_eq(few.msg,
                     "each byte is a token, so the vocabulary needs 256 tokens; it has 255");
    ck_assert_ptr_null(source.bytes);
    ck_assert(!open_text(SEQ, 256, &source, &brief));
    ck_assert_str_eq(brief.msg, "a sequence takes 9 bytes, but the file has 8");
    ck_assert(!token_source_open("/nonexistent/text", 256, SEQ, 5, &source, &none));
    ck_assert_int_ne(none.code, ERR_NONE);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("tokens");
    tcase_add_test(tc, a_sequence_is_a_piece_of_the_text);
    tcase_add_test(tc, a_sequence_depends_on_step_index_and_seed_alone);
    tcase_add_test(tc, a_text_needs_a_sequence_and_a_vocabulary_of_bytes);
    Suite *s = suite_create("exec/tokens");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
