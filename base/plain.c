/* Text that may be shown on a terminal unchanged. */
#include "base/plain.h"

#include <stdbool.h>
#include <string.h>

/* Number of bytes of the UTF-8 character at `at`; 0 if it is cut short, overlong, a surrogate or
 * above U+10FFFF. RFC 3629, section 4. */
static size_t utf8_bytes(const unsigned char *at)
{
    size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xC2 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (at[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xED && at[1] > 0x9F;
    bool beyond = at[0] == 0xF4 && at[1] > 0x8F;
    return overlong || surrogate || beyond ? 0 : bytes;
}

static unsigned long code_point(const unsigned char *at, size_t bytes)
{
    static const unsigned char first_bits[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    unsigned long code = at[0] & first_bits[bytes];
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | (at[i] & 0x3F);
    return code;
}

/* Whether a terminal obeys the character: separators, and all characters with the property
 * Bidi_Control (Unicode 15, PropList.txt). */
static bool is_obeyed(unsigned long code)
{
    bool is_control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
    bool is_separator = code == 0x2028 || code == 0x2029;
    bool is_mark = code == 0x061C || code == 0x200E || code == 0x200F;
    bool is_override = code >= 0x202A && code <= 0x202E;
    bool is_isolate = code >= 0x2066 && code <= 0x2069;
    return is_control || is_separator || is_mark || is_override || is_isolate;
}

size_t plain_bytes(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    size_t count = utf8_bytes(bytes);
    return count > 0 && !is_obeyed(code_point(bytes, count)) ? count : 0;
}

const char *plain_fault(const char *text)
{
    for (size_t bytes = 1; *text; text += bytes) {
        bytes = plain_bytes(text);
        if (bytes == 0)
            return text;
    }
    return NULL;
}

void plain_make(char *text)
{
    char *to = text;
    while (*text) {
        size_t bytes = plain_bytes(text);
        if (bytes > 0) {
            memmove(to, text, bytes);
            to += bytes;
            text += bytes;
            continue;
        }
        size_t faulty = utf8_bytes((const unsigned char *)text);
        *to++ = '?';
        text += faulty > 0 ? faulty : 1;
    }
    *to = '\0';
}
