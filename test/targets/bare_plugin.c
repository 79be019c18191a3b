/* A library that is built without unwind information and without frame pointers, as parts of
 * libvips and glib are: bare.c calls it. Frames of each kind that a compiler makes.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FRAME __attribute__((noinline, noclone, noipa, visibility("default")))
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

void *bare_outer(unsigned path, size_t bytes);
void *bare_room(unsigned path, size_t bytes);
void *bare_list(unsigned path, ...);
void *bare_choice(unsigned path, size_t bytes);
void *bare_leaf(size_t bytes);
void bare_abort(void);

static volatile unsigned never;

FRAME void bare_abort(void)
{
	abort();
}

/* A call that never returns stands in the middle. */
FRAME void *bare_leaf(size_t bytes)
{
	void *block = bytes ? malloc(bytes) : NULL;

	if (never)
		bare_abort();
	return block;
}

/* A jump by a table, and frames of different sizes on its ways. */
FRAME void *bare_choice(unsigned path, size_t bytes)
{
	char room[64];
	void *block;

	switch (path % 8) {
	case 0:
		block = bare_leaf(bytes);
		break;
	case 1:
		block = memset(bare_leaf(bytes), 1, bytes);
		break;
	case 2:
		memset(room, (int)path, sizeof(room));
		block = bare_leaf(bytes + !room[never]);
		break;
	case 3:
		block = never ? NULL : bare_leaf(bytes);
		break;
	case 4:
		block = bare_leaf(bytes + never);
		break;
	case 5:
		if (never)
			bare_abort();
		block = bare_leaf(bytes);
		break;
	case 6:
		block = bare_leaf(bytes - never);
		break;
	default:
		block = bare_leaf(bytes ^ never);
		break;
	}
	KEEP_FRAME();
	return block;
}

/* Arguments that are saved on the stack. */
FRAME void *bare_list(unsigned path, ...)
{
	va_list list;
	void *block;

	va_start(list, path);
	block = bare_choice(path, va_arg(list, size_t));
	va_end(list);
	KEEP_FRAME();
	return block;
}

/* A frame whose size is known only when it runs. */
FRAME void *bare_room(unsigned path, size_t bytes)
{
	volatile char *room = __builtin_alloca(16 + path * 32);
	void *block;

	room[path] = 1;
	block = bare_list(path, bytes);
	return room[path] ? block : NULL;
}

FRAME void *bare_outer(unsigned path, size_t bytes)
{
	void *block = path % 2 ? bare_room(path, bytes) : bare_list(path, bytes);

	KEEP_FRAME();
	return block;
}
