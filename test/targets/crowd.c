/* crowd THREADS: as many threads, each of which allocates in its turn and then waits.
 *
 * Commands: "run N": each thread allocates N times, in eight functions at sixteen depths, keeps
 * the last block and frees the others; "many MODULO N": the same, by every MODULO-th thread only;
 * both are answered "ran"; "quit". */
#include <pthread.h>

#include "test/targets/target.h"

enum { STACK_BYTES = 64 << 10, DEPTHS = 16, BYTES = 40 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned long turn, operations, modulo;
	unsigned busy;
	bool over;
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct member {
	unsigned index;
	void *kept;
};

/* So many callers of malloc. */
#define PLACE(number)                                            \
	TARGET_FRAME static void *crowd_place_##number(void)     \
	{                                                        \
		void *block = malloc(BYTES);                     \
                                                                 \
		__asm__ volatile("" : "+r"(block) : : "memory"); \
		return block;                                    \
	}
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)
PLACE(6)
PLACE(7)
static void *(*const places[])(void) = {crowd_place_0, crowd_place_1, crowd_place_2, crowd_place_3,
					crowd_place_4, crowd_place_5, crowd_place_6, crowd_place_7};
enum { PLACES = sizeof(places) / sizeof(*places) };

TARGET_FRAME static void *down(unsigned depth, unsigned long place)
{
	void *block = depth ? down(depth - 1, place) : places[place % PLACES]();

	TARGET_KEEP_FRAME();
	return block;
}

static void work(struct member *member, unsigned long operations)
{
	for (unsigned long i = 0; i < operations; i++) {
		free(member->kept);
		member->kept = down((unsigned)(i / PLACES) % DEPTHS, i);
		if (!member->kept)
			target_broken("no memory");
		memset(member->kept, (int)member->index, BYTES);
	}
}

static void *live(void *argument)
{
	struct member *member = argument;
	unsigned long seen = 0;

	pthread_mutex_lock(&crowd.lock);
	for (;;) {
		unsigned long operations;

		while (!crowd.over && crowd.turn == seen)
			pthread_cond_wait(&crowd.changed, &crowd.lock);
		if (crowd.over)
			break;
		seen = crowd.turn;
		operations = member->index % crowd.modulo ? 0 : crowd.operations;
		pthread_mutex_unlock(&crowd.lock);
		work(member, operations);
		pthread_mutex_lock(&crowd.lock);
		if (--crowd.busy == 0)
			pthread_cond_broadcast(&crowd.changed);
	}
	pthread_mutex_unlock(&crowd.lock);
	for (int i = 0; member->kept && i < BYTES; i++)
		if (((unsigned char *)member->kept)[i] != (unsigned char)member->index)
			target_broken("a block has changed");
	free(member->kept);
	return NULL;
}

static void run(unsigned count, unsigned long modulo, unsigned long operations)
{
	pthread_mutex_lock(&crowd.lock);
	crowd.modulo = modulo;
	crowd.operations = operations;
	crowd.busy = count;
	crowd.turn++;
	pthread_cond_broadcast(&crowd.changed);
	while (crowd.busy)
		pthread_cond_wait(&crowd.changed, &crowd.lock);
	pthread_mutex_unlock(&crowd.lock);
}

int main(int argc, char **argv)
{
	unsigned count = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	struct member *members = count ? calloc(count, sizeof(*members)) : NULL;
	pthread_t *threads = count ? calloc(count, sizeof(*threads)) : NULL;
	pthread_attr_t attributes;
	char line[256];
	unsigned long n;

	if (!members || !threads)
		target_broken("usage: crowd THREADS");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (unsigned i = 0; i < count; i++) {
		members[i].index = i;
		if (pthread_create(&threads[i], &attributes, live, &members[i]))
			target_broken("thread %u of %u", i, count);
	}
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "quit", &n))
			break;
		if (target_word(line, "run", &n))
			run(count, 1, n);
		else if (target_word(line, "many", &n) && n)
			run(count, n, strtoul(strrchr(line, ' '), NULL, 10));
		else
			target_broken("unknown command '%s'", line);
		target_say("ran");
	}
	pthread_mutex_lock(&crowd.lock);
	crowd.over = true;
	pthread_cond_broadcast(&crowd.changed);
	pthread_mutex_unlock(&crowd.lock);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	free(members);
	free(threads);
	return 0;
}
