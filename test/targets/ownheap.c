/* ownheap: a program with a malloc of its own, whose lock another function of its takes, too.
 *
 * "work N" allocates; "hold" waits for the next line, any, with that lock in its hands, "held", and
 * then answers "free"; "quit". */
#include <pthread.h>

#include "test/targets/target.h"

#define HEAP_BYTES (32u << 20)

struct block {
	size_t bytes;
	struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t heap[HEAP_BYTES] __attribute__((aligned(16)));
static size_t top;
static struct block *unused;

static struct block *take_again(size_t bytes)
{
	for (struct block **link = &unused; *link; link = &(*link)->next) {
		struct block *block = *link;

		if (block->bytes < bytes)
			continue;
		*link = block->next;
		return block;
	}
	return NULL;
}

/* Not inlined: a compiler that sees malloc and memset makes them calloc. */
TARGET_FRAME static void *take(size_t bytes)
{
	struct block *block;

	bytes = (bytes + 15) / 16 * 16;
	pthread_mutex_lock(&lock);
	block = take_again(bytes);
	if (!block && bytes + sizeof(*block) <= HEAP_BYTES - top) {
		block = (struct block *)(void *)(heap + top);
		top += bytes + sizeof(*block);
		block->bytes = bytes;
	}
	pthread_mutex_unlock(&lock);
	return block ? block + 1 : NULL;
}

TARGET_FRAME void *malloc(size_t bytes)
{
	return take(bytes);
}

TARGET_FRAME void free(void *p)
{
	struct block *block = (struct block *)p - 1;

	if (!p)
		return;
	pthread_mutex_lock(&lock);
	block->next = unused;
	unused = block;
	pthread_mutex_unlock(&lock);
}

TARGET_FRAME void *calloc(size_t count, size_t bytes)
{
	void *p = take(count * bytes);

	if (p)
		memset(p, 0, count * bytes);
	return p;
}

TARGET_FRAME void *realloc(void *p, size_t bytes)
{
	void *q = take(bytes);

	if (p && q) {
		size_t had = ((struct block *)p - 1)->bytes;

		memcpy(q, p, had < bytes ? had : bytes);
		free(p);
	}
	return q;
}

/* As one does that looks through the heap. */
TARGET_FRAME static void ownheap_hold(void)
{
	char line[64];

	pthread_mutex_lock(&lock);
	target_say("held");
	target_listen(line, sizeof(line));
	pthread_mutex_unlock(&lock);
}

TARGET_FRAME static void ownheap_work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *p = malloc(200);

		if (!p)
			target_broken("no memory");
		memset(p, 5, 200);
		free(p);
	}
}

int main(void)
{
	unsigned long count;
	char line[64];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (target_word(line, "work", &count)) {
			ownheap_work(count);
			target_say("worked");
		} else if (!strcmp(line, "hold")) {
			ownheap_hold();
			target_say("free");
		} else {
			target_broken("'%s'?", line);
		}
	}
	return 0;
}
