/* A growing string of bytes. An allocation failure is sticky: write a whole record, then check
 * `failed` once. Zero-initialised is empty and valid. */
#ifndef LIMPET_COMMON_BYTES_H
#define LIMPET_COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/varint.h"

struct limpet_bytes {
	uint8_t *data;
	size_t count, room;
	bool failed;
};

void limpet_bytes_done(struct limpet_bytes *bytes);
/* Reserves `count` more bytes; false: out of memory, and failed is set. */
bool limpet_bytes_grow(struct limpet_bytes *bytes, size_t count);

static inline bool limpet_bytes_reserve(struct limpet_bytes *bytes, size_t count)
{
	return bytes->room - bytes->count >= count || limpet_bytes_grow(bytes, count);
}

/* Empties it, and keeps its memory. */
static inline void limpet_bytes_clear(struct limpet_bytes *bytes)
{
	bytes->count = 0;
	bytes->failed = false;
}

static inline void limpet_bytes_append_byte(struct limpet_bytes *bytes, uint8_t value)
{
	if (limpet_bytes_reserve(bytes, 1))
		bytes->data[bytes->count++] = value;
}

static inline void limpet_bytes_append_varint(struct limpet_bytes *bytes, uint64_t value)
{
	if (limpet_bytes_reserve(bytes, LIMPET_VARINT_MAX_BYTES))
		bytes->count += limpet_varint_encode(bytes->data + bytes->count, value);
}

static inline void limpet_bytes_append(struct limpet_bytes *bytes, const void *data, size_t count)
{
	if (count && limpet_bytes_reserve(bytes, count)) {
		memcpy(bytes->data + bytes->count, data, count);
		bytes->count += count;
	}
}

#endif
