/* tally: threads that allocate, and count what they do in a file that outlives them.
 *
 *	tally FILE [THREADS]	a target: "go" lets the threads run until they are killed or it
 *				ends, "hoard" has them free nothing from then on
 *	tally --read FILE	what was begun and what was done, as JSON
 *	tally --await FILE N	ends as soon as N allocations are done
 *
 * A call is counted as begun before it, and as done after it: whoever is killed has at most one of
 * each thread in between. A realloc counts as a free and an allocation. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "test/targets/target.h"

enum { MAX_THREADS = 16, SLOTS = 256, MAX_BYTES = 3000 };

struct sums {
	_Atomic uint64_t allocations, allocated_bytes, frees, freed_bytes;
};

struct tally {
	_Alignas(128) struct sums begun;
	_Alignas(64) struct sums done;
};

struct slot {
	void *block;
	uint64_t bytes;
};

static struct tally *tallies;
static atomic_bool going, hoarding, over;

static struct tally *map(const char *path, bool fresh)
{
	int fd = open(path, fresh ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0600);
	void *memory;

	if (fd < 0 || (fresh && ftruncate(fd, MAX_THREADS * sizeof(struct tally)) < 0))
		target_broken("%s: %s", path, strerror(errno));
	memory = mmap(NULL, MAX_THREADS * sizeof(struct tally), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	if (memory == MAP_FAILED)
		target_broken("mmap: %s", strerror(errno));
	close(fd);
	return memory;
}

static void add(_Atomic uint64_t *sum, uint64_t value)
{
	atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + value,
			      memory_order_release);
}

static void count(struct sums *sums, uint64_t bytes, uint64_t freed_bytes, bool frees,
		  bool allocates)
{
	add(&sums->allocations, allocates);
	add(&sums->allocated_bytes, bytes);
	add(&sums->frees, frees);
	add(&sums->freed_bytes, freed_bytes);
}

TARGET_FRAME static void *tally_call(void *block, uint64_t bytes, unsigned kind)
{
	void *answer = NULL;

	if (!bytes)
		free(block);
	else if (block)
		answer = realloc(block, bytes);
	else
		answer = kind % 4 ? malloc(bytes) : calloc(1, bytes);
	TARGET_KEEP_FRAME();
	return answer;
}

static void *work(void *data)
{
	struct tally *tally = data;
	uint64_t random = (uint64_t)(tally - tallies) * 2654435761u + 88172645463325252ull;
	static _Thread_local struct slot slots[SLOTS];

	while (!going)
		usleep(1000);
	while (!over) {
		uint64_t word = target_random(&random);
		struct slot *slot = &slots[word % SLOTS];
		uint64_t bytes = 1 + (word >> 16) % MAX_BYTES;

		if (hoarding)
			*slot = (struct slot){0};
		if (slot->block && word >> 60)
			bytes = 0;
		count(&tally->begun, bytes, slot->bytes, slot->block, bytes);
		slot->block = tally_call(slot->block, bytes, (unsigned)(word >> 40));
		if (bytes && !slot->block)
			target_broken("no memory");
		count(&tally->done, bytes, slot->bytes, slot->bytes, bytes);
		slot->bytes = bytes;
	}
	for (unsigned i = 0; i < SLOTS; i++)
		free(slots[i].block);
	return NULL;
}

static void print(const char *name, size_t offset, const char *after)
{
	uint64_t sums[4] = {0};

	for (unsigned i = 0; i < MAX_THREADS; i++) {
		_Atomic uint64_t *from = (void *)((char *)&tallies[i] + offset);

		for (unsigned j = 0; j < 4; j++)
			sums[j] += atomic_load_explicit(&from[j], memory_order_acquire);
	}
	printf("\"%s\":{\"allocations\":%lu,\"allocated_bytes\":%lu,\"frees\":%lu,\"freed_bytes\":%"
	       "lu}%s",
	       name, sums[0], sums[1], sums[2], sums[3], after);
}

static uint64_t allocations_done(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < MAX_THREADS; i++)
		sum += tallies[i].done.allocations;
	return sum;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 2;
	pthread_t workers[MAX_THREADS];
	char line[64];

	if (argc == 3 && !strcmp(argv[1], "--read")) {
		tallies = map(argv[2], false);
		/* What is done is read first: it is never more than what was begun. */
		putchar('{');
		print("done", offsetof(struct tally, done), ",");
		print("begun", offsetof(struct tally, begun), "}\n");
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "--await")) {
		tallies = map(argv[2], false);
		while (allocations_done() < strtoull(argv[3], NULL, 10))
			usleep(200);
		return 0;
	}
	if (argc < 2 || !threads || threads > MAX_THREADS)
		return 2;
	tallies = map(argv[1], true);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&workers[i], NULL, work, &tallies[i]))
			target_broken("no thread");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "go")) {
			going = true;
			target_say("going");
		} else if (!strcmp(line, "hoard")) {
			/* Before it does: it will not say much afterwards. */
			target_say("hoarding");
			hoarding = true;
		} else {
			break;
		}
	}
	going = over = true;
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	return 0;
}
