/* arena: an allocator that nobody knows, over blocks of malloc's, beside malloc itself.
 * With -DPOOL, it reports itself by limpet.h.
 *
 * Commands: "run N": N blocks of each, some of them resized, a tenth kept; "count": what was done
 * since the start, as JSON; "quit". */
#include "test/targets/target.h"

#ifdef POOL
#include "agent/include/limpet.h"

LIMPET_POOL(arena)
#define NEW_CHUNK(bytes) limpet_pool_arena_chunk(malloc, bytes)
#define ALLOCATED(block, bytes) limpet_pool_arena_allocated(block, bytes)
#define FREED(block) limpet_pool_arena_freed(block)
#else
#define NEW_CHUNK(bytes) malloc(bytes)
#define ALLOCATED(block, bytes) (block)
#define FREED(block)
#endif

enum { CHUNK_BYTES = 65536, CLASS_BYTES = 64, CLASSES = 32 };

struct free_block {
	struct free_block *next;
};

/* Blocks of a class are never given back to malloc; before each stands its size. */
struct arena {
	struct free_block *classes[CLASSES];
	char *at, *end;
	unsigned long chunks;
};

static struct {
	unsigned long allocations, frees, allocated_bytes, kept;
} arena_counts, malloc_counts;

static struct arena arena;

/* Seen from outside, so that their arguments stay as they are. */
void *arena_take(struct arena *from, size_t bytes);
void arena_give(struct arena *to, void *block);
void *arena_grow(struct arena *of, void *block, size_t bytes);

TARGET_FRAME void *arena_take(struct arena *from, size_t bytes)
{
	size_t number = (bytes + sizeof(size_t) + CLASS_BYTES - 1) / CLASS_BYTES;
	struct free_block *block = from->classes[number];
	size_t *head;

	if (block) {
		from->classes[number] = block->next;
		head = (size_t *)(void *)block;
	} else {
		if ((size_t)(from->end - from->at) < number * CLASS_BYTES) {
			from->at = NEW_CHUNK(CHUNK_BYTES);
			if (!from->at)
				target_broken("no memory");
			from->end = from->at + CHUNK_BYTES;
			from->chunks++;
		}
		head = (size_t *)(void *)from->at;
		from->at += number * CLASS_BYTES;
	}
	*head = number;
	return ALLOCATED(head + 1, bytes);
}

TARGET_FRAME void arena_give(struct arena *to, void *block)
{
	size_t *head = (size_t *)block - 1, number = *head;
	struct free_block *freed = (struct free_block *)(void *)head;

	FREED(block);
	freed->next = to->classes[number];
	to->classes[number] = freed;
}

TARGET_FRAME void *arena_grow(struct arena *of, void *block, size_t bytes)
{
	size_t old = block ? ((size_t *)block)[-1] * CLASS_BYTES - sizeof(size_t) : 0;
	char *more = arena_take(of, bytes);

	if (block) {
		memcpy(more, block, old < bytes ? old : bytes);
		arena_give(of, block);
	}
	return more;
}

TARGET_FRAME static void *keep_in_arena(size_t bytes)
{
	void *block = arena_take(&arena, bytes);

	TARGET_KEEP_FRAME();
	return block;
}

TARGET_FRAME static void *keep_by_malloc(size_t bytes)
{
	void *block = malloc(bytes);

	TARGET_KEEP_FRAME();
	return block;
}

static void round_of(unsigned long i)
{
	size_t bytes = 20 + i % 700;
	char *block = keep_in_arena(bytes), *other = keep_by_malloc(bytes);

	if (!other)
		target_broken("no memory");
	memset(block, 1, bytes);
	memset(other, 2, bytes);
	arena_counts.allocations++;
	malloc_counts.allocations++;
	arena_counts.allocated_bytes += bytes;
	malloc_counts.allocated_bytes += bytes;
	if (i % 3 == 0) {
		block = arena_grow(&arena, block, 2 * bytes);
		arena_counts.frees++;
		arena_counts.allocations++;
		arena_counts.allocated_bytes += 2 * bytes;
	}
	if (block[0] != 1 || block[bytes - 1] != 1 || other[bytes - 1] != 2)
		target_broken("a block changed");
	if (i % 10 == 0) {
		arena_counts.kept++;
		return;
	}
	arena_give(&arena, block);
	free(other);
	arena_counts.frees++;
	malloc_counts.frees++;
}

int main(void)
{
	char line[64];
	unsigned long number;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &number)) {
			for (unsigned long i = 0; i < number; i++)
				round_of(i);
			target_say("ran");
		} else if (target_word(line, "count", &number)) {
			target_say("{\"arena\":{\"allocations\":%lu,\"frees\":%lu,"
				   "\"allocated_bytes\":%lu},\"glibc\":{\"allocations\":%lu,"
				   "\"frees\":%lu,\"allocated_bytes\":%lu},\"kept\":%lu,"
				   "\"chunks\":%lu}",
				   arena_counts.allocations, arena_counts.frees,
				   arena_counts.allocated_bytes, malloc_counts.allocations,
				   malloc_counts.frees, malloc_counts.allocated_bytes,
				   arena_counts.kept, arena.chunks);
		} else {
			break;
		}
	}
	return 0;
}
