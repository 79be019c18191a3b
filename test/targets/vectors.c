/* vectors: an allocator whose functions leave vector registers alone, but for the one that tells a
 * block's size, which the program never calls; and callers that rely on it. Ends with 70 when a
 * register has changed.
 *
 * Commands: "run N": takes, moves and gives back N times; "go" does so until "hold", in a thread;
 * "asked": how often a size was asked; "quit". */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test/targets/target.h"
#include "test/targets/vectors.h"

enum { HEAP_BYTES = 1 << 22, LARGE = 1024, KEPT = 8 };

struct block {
	uint64_t bytes;
	struct block *next;
};

static uint8_t heap[HEAP_BYTES] __attribute__((aligned(16)));
static size_t top;
static struct block *unused;
static struct vectors garbage;
static atomic_ulong asked;
static _Atomic bool going;

/* What is given back is as large as everything else; larger blocks stay. */
TARGET_FRAME void *malloc(size_t bytes)
{
	struct block *block = unused;

	if (block && bytes <= LARGE) {
		unused = block->next;
		return block + 1;
	}
	bytes = bytes < LARGE ? LARGE : (bytes + 15) / 16 * 16;
	if (bytes + sizeof(*block) > HEAP_BYTES - top)
		return NULL;
	block = (struct block *)(void *)(heap + top);
	top += bytes + sizeof(*block);
	block->bytes = bytes;
	return block + 1;
}

TARGET_FRAME void free(void *p)
{
	struct block *block = (struct block *)p - 1;

	if (!p || block->bytes != LARGE)
		return;
	block->next = unused;
	unused = block;
}

TARGET_FRAME void *calloc(size_t count, size_t bytes)
{
	uint8_t *p = malloc(count * bytes);

	for (size_t i = 0; p && i < count * bytes; i++)
		p[i] = 0;
	return p;
}

TARGET_FRAME void *realloc(void *p, size_t bytes)
{
	uint8_t *new = malloc(bytes);

	for (size_t i = 0; p && new &&i < bytes &&i < ((struct block *)p - 1)->bytes; i++)
		new[i] = ((uint8_t *)p)[i];
	if (new)
		free(p);
	return new;
}

TARGET_FRAME size_t malloc_usable_size(void *p)
{
	asked++;
	vectors_load(&garbage);
	return p ? ((struct block *)p - 1)->bytes : 0;
}

/* By one function after the other, at one level after the other. */
static void *call(const char *name, uint64_t function, uint64_t a, uint64_t b)
{
	static uint64_t seed = 1, number;
	struct vectors before, after;
	uint64_t answer;

	vectors_fill(&before, number++ % (vectors_best() + 1), target_random, &seed);
	after = before;
	answer = vectors_call(&after, function, a, b, 0, 0);
	if (after.mxcsr != before.mxcsr)
		target_broken("%s: mxcsr was %lx and is %lx", name, before.mxcsr, after.mxcsr);
	for (unsigned i = 0; i < 32; i++)
		if (memcmp(after.all[i], before.all[i], sizeof(before.all[i])) != 0)
			target_broken("%s: vector register %u has changed, at level %lu", name, i,
				      before.level);
	if (memcmp(after.masks, before.masks, sizeof(before.masks)) != 0)
		target_broken("%s: a mask has changed, at level %lu", name, before.level);
	return (void *)(uintptr_t)answer;
}
#define CALL(function, a, b) call(#function, (uintptr_t)(function), (uintptr_t)(a), (uintptr_t)(b))

/* Of blocks that were kept for a while: of the last one taken no size is asked. */
TARGET_FRAME static void vectors_run(unsigned long n)
{
	static void *kept[KEPT];

	for (unsigned long i = 0; i < n; i++) {
		void **place = &kept[i % KEPT];

		CALL(free, *place, 0);
		*place = i % 2 ? CALL(malloc, 100, 0) : CALL(calloc, 10, 10);
		place = &kept[(i + KEPT / 2) % KEPT];
		*place = CALL(realloc, *place, 200);
	}
	TARGET_KEEP_FRAME();
}

static void *run_on(void *unused_argument)
{
	while (going)
		vectors_run(100);
	return unused_argument;
}

int main(void)
{
	pthread_t thread;
	char line[64];
	unsigned long n;
	uint64_t seed = 2;

	vectors_fill(&garbage, vectors_best(), target_random, &seed);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &n)) {
			vectors_run(n);
			target_say("ran");
		} else if (target_word(line, "go", &n)) {
			going = true;
			if (pthread_create(&thread, NULL, run_on, NULL))
				target_broken("no thread");
			target_say("going");
		} else if (target_word(line, "hold", &n)) {
			going = false;
			pthread_join(thread, NULL);
			target_say("held");
		} else if (target_word(line, "asked", &n)) {
			target_say("asked %lu", asked);
		} else {
			break;
		}
	}
	return 0;
}
