/* An allocator in an object file of its own, whose names are stripped: size classes that are powers
 * of two, a list of free blocks for each. The head of a block tells its class and alone belongs to
 * the allocator. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "test/targets/nameless.h"
#include "test/targets/target.h"

enum { HEAD = 16, CLASSES = 24, LEAST = 5, REGION = 1 << 24 };

/* By these texts limpet tells what it is. */
__attribute__((used)) static const char *const texts[] = {
	"environment option mimalloc_%s has an invalid value.\n",
	"environment option \"mimalloc_%s\" is deprecated -- use \"mimalloc_%s\" instead.\n",
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *free_lists[CLASSES];
static char *at, *end;
static size_t blocks;

static unsigned class_of(size_t bytes)
{
	unsigned class = LEAST;

	while (((size_t)1 << class) < bytes)
		class ++;
	return class;
}

static void *take(size_t size)
{
	const unsigned class = class_of(size + HEAD);
	const size_t bytes = (size_t)1 << class;
	char *block;

	if (class >= CLASSES)
		return NULL;
	pthread_mutex_lock(&lock);
	block = free_lists[class];
	if (block) {
		memcpy(&free_lists[class], block + HEAD, sizeof(block));
	} else {
		if ((size_t)(end - at) < bytes) {
			at = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
			if (at == MAP_FAILED)
				target_broken("no memory");
			end = at + REGION;
		}
		block = at;
		at += bytes;
	}
	blocks++;
	pthread_mutex_unlock(&lock);
	memcpy(block, &class, sizeof(class));
	return block + HEAD;
}

static unsigned read_class(const void *block)
{
	unsigned class;

	memcpy(&class, (const char *)block - HEAD, sizeof(class));
	return class;
}

static TARGET_FRAME void give(void *block)
{
	const unsigned class = block ? read_class(block) : 0;

	if (!block)
		return;
	pthread_mutex_lock(&lock);
	memcpy(block, &free_lists[class], sizeof(free_lists[class]));
	free_lists[class] = (char *)block - HEAD;
	blocks--;
	pthread_mutex_unlock(&lock);
}

static TARGET_FRAME void *get(size_t size, size_t alignment)
{
	return alignment > HEAD ? NULL : take(size);
}

static TARGET_FRAME void *get_zeroed(size_t size, size_t alignment)
{
	void *block = alignment > HEAD ? NULL : take(size);

	return block ? memset(block, 0, size) : NULL;
}

static TARGET_FRAME size_t usable(const void *block)
{
	return ((size_t)1 << read_class(block)) - HEAD;
}

static TARGET_FRAME void *change(void *block, size_t size, size_t alignment)
{
	void *moved;

	if (!block)
		return get(size, alignment);
	if (size <= usable(block))
		return block;
	/* Through functions that others call, too. */
	moved = get(size, alignment);
	if (moved) {
		memcpy(moved, block, usable(block));
		give(block);
	}
	return moved;
}

size_t heap_blocks(void)
{
	size_t count;

	pthread_mutex_lock(&lock);
	count = blocks;
	pthread_mutex_unlock(&lock);
	return count;
}

void *(*slot_malloc)(size_t size, size_t alignment) = get;
void *(*slot_zalloc)(size_t size, size_t alignment) = get_zeroed;
void *(*slot_realloc)(void *block, size_t size, size_t alignment) = change;
void (*slot_free)(void *block) = give;
size_t (*slot_usable)(const void *block) = usable;
