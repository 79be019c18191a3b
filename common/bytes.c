#include "common/bytes.h"

#include <stdlib.h>

void limpet_bytes_done(struct limpet_bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct limpet_bytes){0};
}

bool limpet_bytes_grow(struct limpet_bytes *bytes, size_t count)
{
	size_t want, room;
	uint8_t *data;

	if (bytes->failed || __builtin_add_overflow(bytes->count, count, &want))
		goto fail;
	room = bytes->room ? bytes->room : 256;
	while (room < want)
		if (__builtin_mul_overflow(room, (size_t)2, &room))
			goto fail;
	data = realloc(bytes->data, room);
	if (!data)
		goto fail;
	bytes->data = data;
	bytes->room = room;
	return true;
fail:
	bytes->failed = true;
	return false;
}
