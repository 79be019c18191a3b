/* handoff: producers and consumers that free each other's blocks at full speed.
 *
 *	handoff [PAIRS]
 *
 * Two threads a pair, with a ring in each direction: each allocates, hands over, and frees what the
 * other one handed over. The allocator's caches give the same few addresses out again at once, so
 * that each goes from thread to thread all the time.
 *
 * "run N" lets each thread hand over N blocks and free all that it gets, and answers "ran"; "count"
 * answers what was done, as JSON; "quit" ends with 0. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "test/targets/target.h"

enum { MAX_PAIRS = 32, RING = 8, MIN_BYTES = 24, SIZES = 5 };

struct ring {
	_Alignas(128) _Atomic(unsigned char *) slots[RING];
};

struct side {
	struct ring *out, *in;
	unsigned long count;
	unsigned char mark;
};

static struct ring rings[MAX_PAIRS][2];
static unsigned long handed, bytes_handed;

static unsigned long size_of(unsigned long number)
{
	return MIN_BYTES + number % SIZES * 16;
}

/* Marked all over by who made it: a block that two own at a time shows. */
TARGET_FRAME static unsigned char *handoff_make(unsigned long number, unsigned char mark)
{
	unsigned long bytes = size_of(number);
	unsigned char *block = malloc(bytes);

	if (!block)
		target_broken("out of memory");
	memset(block, mark, bytes);
	return block;
}

TARGET_FRAME static void handoff_take(unsigned char *block, unsigned long number,
				      unsigned char mark)
{
	for (unsigned long i = 0; i < size_of(number); i++)
		if (block[i] != mark)
			target_broken("a block of another's: %d instead of %d", block[i], mark);
	free(block);
}

static void *side_main(void *argument)
{
	const struct side *side = argument;
	unsigned long sent = 0, got = 0;

	while (sent < side->count || got < side->count) {
		unsigned char *block;
		bool idle = true;

		if (sent < side->count &&
		    !atomic_load_explicit(&side->out->slots[sent % RING], memory_order_acquire)) {
			atomic_store_explicit(&side->out->slots[sent % RING],
					      handoff_make(sent, side->mark), memory_order_release);
			sent++;
			idle = false;
		}
		block = atomic_load_explicit(&side->in->slots[got % RING], memory_order_acquire);
		if (block) {
			atomic_store_explicit(&side->in->slots[got % RING], NULL,
					      memory_order_release);
			handoff_take(block, got++, (unsigned char)~side->mark);
			idle = false;
		}
		if (idle)
			sched_yield();
	}
	return NULL;
}

static void run(unsigned long count, int pairs)
{
	pthread_t threads[2 * MAX_PAIRS];
	struct side sides[2 * MAX_PAIRS];

	for (int i = 0; i < 2 * pairs; i++) {
		sides[i] = (struct side){&rings[i / 2][i % 2], &rings[i / 2][1 - i % 2], count,
					 i % 2 ? 0xa5 : 0x5a};
		if (pthread_create(&threads[i], NULL, side_main, &sides[i]))
			target_broken("no thread");
	}
	for (int i = 0; i < 2 * pairs; i++)
		pthread_join(threads[i], NULL);
	handed += 2ul * (unsigned long)pairs * count;
	for (unsigned long i = 0; i < SIZES; i++)
		bytes_handed += 2ul * (unsigned long)pairs * size_of(i) *
				(count / SIZES + (i < count % SIZES));
}

int main(int argc, char **argv)
{
	int pairs = argc > 1 ? atoi(argv[1]) : 1;
	unsigned long count;
	char line[64];

	if (pairs < 1 || pairs > MAX_PAIRS)
		target_broken("usage: handoff [PAIRS]");
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (sscanf(line, "run %lu", &count) == 1) {
			run(count, pairs);
			target_say("ran");
		} else if (!strcmp(line, "count")) {
			target_say("{\"allocations\":%lu,\"allocated_bytes\":%lu}", handed,
				   bytes_handed);
		} else if (!strcmp(line, "quit")) {
			break;
		} else {
			target_broken("unknown command %s", line);
		}
	}
	return 0;
}
