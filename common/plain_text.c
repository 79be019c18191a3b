#include "common/plain_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at `s`, 0 if it is invalid (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF). */
static size_t sequence(const unsigned char *s, uint32_t *ret_code)
{
	uint32_t code;
	size_t length;

	if (s[0] < 0x80) {
		*ret_code = s[0];
		return 1;
	}
	length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	code = s[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || code > 0x10ffff ||
	    (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return length;
}

char *limpet_plain_text_repair(const char *text)
{
	const unsigned char *in = (const unsigned char *)text;
	char *out = malloc(3 * strlen(text) + 1);
	size_t used = 0;

	if (!out)
		return NULL;
	while (*in) {
		uint32_t code;
		size_t length = sequence(in, &code);

		if (length) {
			memcpy(out + used, in, length);
			used += length;
			in += length;
		} else {
			memcpy(out + used, "\xef\xbf\xbd", 3);
			used += 3;
			in++;
		}
	}
	out[used] = '\0';
	return out;
}

/* C0, DEL, C1, and characters that change the direction of text. */
static bool steers(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

char *limpet_plain_text_clean(char *text)
{
	char *out = text;

	for (const char *in = text; *in;) {
		uint32_t code;
		size_t length = sequence((const unsigned char *)in, &code);

		if (length && !steers(code)) {
			memmove(out, in, length);
			out += length;
		} else {
			*out++ = '?';
		}
		in += length ? length : 1;
	}
	*out = '\0';
	return text;
}

int limpet_plain_text_check(const char *text)
{
	int result = 0;

	while (*text) {
		uint32_t code;
		const size_t length = sequence((const unsigned char *)text, &code);

		if (!length)
			return -EILSEQ;
		if (steers(code))
			result = -EINVAL;
		text += length;
	}
	return result;
}

size_t limpet_plain_text_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}
