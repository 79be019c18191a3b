/* LEB128: unsigned integers, seven bits a byte, low bits first. Freestanding.
 *
 * Reading goes through a cursor whose failure sticks: bytes are hostile, and one check at the end
 * of a record is easier to get right than one a field. */
#ifndef LIMPET_COMMON_VARINT_H
#define LIMPET_COMMON_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMPET_VARINT_MAX_BYTES 10u

/* `out` has space for LIMPET_VARINT_MAX_BYTES. Returns the number of bytes written. */
static inline unsigned limpet_varint_encode(uint8_t *out, uint64_t value)
{
	unsigned count = 0;

	while (value >= 0x80) {
		out[count++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	out[count++] = (uint8_t)value;
	return count;
}

/* The same for numbers of unpredictable length: there is no branch between one byte and two, nor
 * between three and four. May write up to LIMPET_VARINT_MAX_BYTES at `out`, whatever it returns. */
static inline unsigned limpet_varint_encode_any(uint8_t *out, uint64_t value)
{
	uint32_t bytes, bits;
	unsigned count;

	if (value < 1u << 14) {
		count = value > 0x7f;
		out[0] = (uint8_t)(value | count << 7);
		out[1] = (uint8_t)(value >> 7);
		return count + 1;
	}
	if (value >> 28)
		return limpet_varint_encode(out, value);
	bits = (uint32_t)value;
	/* bytes after the first: one for each seven bits above the lowest seven */
	count = 2u + (bits > 0x1fffff);
	bytes = (bits & 0x7f) | (bits & 0x3f80) << 1 | (bits & 0x1fc000) << 2 |
		(bits & 0xfe00000) << 3 | (0x808080u & ((1u << count * 8) - 1));
	out[0] = (uint8_t)bytes;
	out[1] = (uint8_t)(bytes >> 8);
	out[2] = (uint8_t)(bytes >> 16);
	out[3] = (uint8_t)(bytes >> 24);
	return count + 1;
}

struct limpet_cursor {
	const uint8_t *at, *end;
	bool failed; /* the data ended, or was not an integer of 64 bits */
};

static inline struct limpet_cursor limpet_cursor_of(const uint8_t *bytes, size_t count)
{
	return (struct limpet_cursor){.at = bytes, .end = bytes + count, .failed = false};
}

static inline size_t limpet_cursor_left(const struct limpet_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

/* 0 after a failure, and from then on. */
static inline uint64_t limpet_cursor_varint(struct limpet_cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		/* the tenth byte holds bit 63 alone */
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	cursor->failed = true;
	cursor->at = cursor->end;
	return 0;
}

/* As above, and fails if the value exceeds `limit`. */
static inline uint64_t limpet_cursor_limited(struct limpet_cursor *cursor, uint64_t limit)
{
	uint64_t value = limpet_cursor_varint(cursor);

	if (value <= limit)
		return value;
	cursor->failed = true;
	cursor->at = cursor->end;
	return 0;
}

/* `count` bytes in place, or NULL. */
static inline const uint8_t *limpet_cursor_bytes(struct limpet_cursor *cursor, uint64_t count)
{
	const uint8_t *taken = cursor->at;

	if (cursor->failed || count > limpet_cursor_left(cursor)) {
		cursor->failed = true;
		cursor->at = cursor->end;
		return NULL;
	}
	cursor->at += count;
	return taken;
}

#endif
