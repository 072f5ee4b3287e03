#include "exec/tokens.h"

#include "base/file.h"
#include "kernels/host/philox.h"

#include <stdlib.h>

enum { MOST_BYTES = 1 << 30 };
/* Keys for the random draws of tokens, and of positions in a text. They differ from the keys for
 * layers' draws. */
enum { TOKEN_LAYER = 0xffff, TOKEN_OP = 0, PLACE_OP = 1 };

static struct draw draw_of(const struct token_source *source, uint32_t step, uint16_t op)
{
    return (struct draw){ .seed = source->seed, .step = step, .layer = TOKEN_LAYER, .op = op };
}

bool token_source_open(const char *path, long vocab, long seq, uint64_t seed,
                       struct token_source *out, struct err *err)
{
    size_t length;
    char *bytes = file_read(path, MOST_BYTES, &length, err);
    if (!bytes)
        return false;
    *out = (struct token_source){ (unsigned char *)bytes, length, vocab, seq, seed };
    if (vocab < 256)
        err_set(err, ERR_INPUT, path,
                "each byte is a token, so the vocabulary needs 256 tokens; it has %ld", vocab);
    else if (length < (size_t)seq + 1)
        err_set(err, ERR_INPUT, path, "a sequence takes %ld bytes, but the file has %zu", seq + 1,
                length);
    else
        return true;
    token_source_close(out);
    return false;
}

void token_source_close(struct token_source *source)
{
    free(source->bytes);
    source->bytes = NULL;
}

/* Reads seq + 1 tokens from a random position in the text. */
static void read_text(const struct token_source *source, uint32_t step, long sequence,
                      int64_t *tokens)
{
    struct draw draw = draw_of(source, step, PLACE_OP);
    uint32_t words[2];
    draw_words(&draw, 2 * (uint64_t)sequence, 2, words);
    size_t places = source->num_bytes - (size_t)source->seq;
    size_t place = (size_t)(((uint64_t)words[0] << 32 | words[1]) % places);
    for (long i = 0; i <= source->seq; i++)
        tokens[i] = source->bytes[place + (size_t)i];
}

static void read_sequence(const struct token_source *source, uint32_t step, long sequence,
                          int64_t *tokens)
{
    struct draw draw = draw_of(source, step, TOKEN_OP);
    uint64_t length = (uint64_t)source->seq + 1;
    if (source->bytes)
        read_text(source, step, sequence, tokens);
    else
        draw_tokens(&draw, (uint32_t)source->vocab, (uint64_t)sequence * length, (long)length,
                    tokens);
}

void tokens_of(const struct token_source *source, uint32_t step, long first, long count,
               int64_t *ids, int64_t *targets)
{
    long seq = source->seq;
    int64_t *tokens = malloc(sizeof *tokens * ((size_t)seq + 1));
    for (long i = 0; tokens && i < count; i++) {
        read_sequence(source, step, first + i, tokens);
        for (long t = 0; t < seq; t++) {
            ids[i * seq + t] = tokens[t];
            targets[i * seq + t] = tokens[t + 1];
        }
    }
    free(tokens);
}
