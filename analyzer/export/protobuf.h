/* Fields of protocol buffers, encoded by hand: for a few message types, a library would add a code
 * generator and a dependency. A failure to allocate is sticky, as in bytes.h. */
#ifndef LIMPET_ANALYZER_EXPORT_PROTOBUF_H
#define LIMPET_ANALYZER_EXPORT_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"

/* Also 0. */
static inline void limpet_protobuf_append_value(struct limpet_bytes *message, unsigned field,
						uint64_t value)
{
	limpet_bytes_append_varint(message, (uint64_t)field << 3);
	limpet_bytes_append_varint(message, value);
}

/* 0, the default, is left out. */
static inline void limpet_protobuf_append_number(struct limpet_bytes *message, unsigned field,
						 uint64_t value)
{
	if (value)
		limpet_protobuf_append_value(message, field, value);
}

static inline void limpet_protobuf_append_bytes(struct limpet_bytes *message, unsigned field,
						const void *bytes, size_t count)
{
	limpet_bytes_append_varint(message, (uint64_t)field << 3 | 2);
	limpet_bytes_append_varint(message, count);
	limpet_bytes_append(message, bytes, count);
}

static inline void limpet_protobuf_append_text(struct limpet_bytes *message, unsigned field,
					       const char *text)
{
	limpet_protobuf_append_bytes(message, field, text, strlen(text));
}

/* Empties `inner`. */
static inline void limpet_protobuf_append_message(struct limpet_bytes *message, unsigned field,
						  struct limpet_bytes *inner)
{
	limpet_protobuf_append_bytes(message, field, inner->data, inner->count);
	message->failed |= inner->failed;
	limpet_bytes_clear(inner);
}

/* Writes a message as a field of the outermost one, and empties it: the fields of a message come in
 * any order. False: out of memory; errors of the file are found by ferror(). */
static inline bool limpet_protobuf_write(FILE *file, unsigned field, struct limpet_bytes *message)
{
	uint8_t head[2 * LIMPET_VARINT_MAX_BYTES];
	size_t count = limpet_varint_encode(head, (uint64_t)field << 3 | 2);
	const bool whole = !message->failed;

	count += limpet_varint_encode(head + count, message->count);
	fwrite(head, 1, count, file);
	if (message->count)
		fwrite(message->data, 1, message->count, file);
	limpet_bytes_clear(message);
	return whole;
}

#endif
