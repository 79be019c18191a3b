/* Room in arrays that grow. */
#ifndef LIMPET_COMMON_ROOM_H
#define LIMPET_COMMON_ROOM_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `array` is the address of a pointer to malloc'ed items, or to NULL; *room says how many there is
 * room for, and is `want` at least after this. -ENOMEM: both are as before. */
static inline int limpet_room_for(void *array, size_t *room, size_t want, size_t item_bytes)
{
	size_t more = *room ? *room : 64;
	void *grown;

	if (want <= *room)
		return 0;
	while (more < want) {
		if (more > SIZE_MAX / 2)
			return -ENOMEM;
		more *= 2;
	}
	memcpy(&grown, array, sizeof(grown));
	grown = reallocarray(grown, more, item_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof(grown));
	*room = more;
	return 0;
}

#endif
