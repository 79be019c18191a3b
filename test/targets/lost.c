/* lost: blocks of glibc's malloc to which nothing points any more, others to which something does,
 * and both on a second thread as well. Sizes tell them apart:
 *
 *	10 of 216 B      lost, each alone
 *	20 of 88 B       a lost list
 *	3 pairs, 312 B   circles, lost
 *	1 of 300 KB      lost, with a mapping of its own
 *	1 of 1000 B      only a pointer into its midst
 *	1 of 520 B       a pointer with tags
 *	1 of 1512 B      by a thread-local variable
 *	100 of 152 B     a table points to them
 *	1 of 712 B       by a local variable of main's
 *	1 of 824 B       by a word of the stack that is no longer in use
 *
 * "move": from now on a thread moves its only pointers to two blocks of 4008 B about as fast as it
 * can. "churn": another makes and frees blocks. "more": the first four of these once more, and 200
 *of 120 B in a list of `sessions`. "grow": a thread opens sessions all the time; answers the
 *address of the last one before. "quit". */
#include <pthread.h>

#include "test/targets/target.h"

struct node {
	struct node *next;
	char rest[80];
};

static void *volatile table[100];
static char *volatile inside;
static volatile uintptr_t tagged;
static _Thread_local void *volatile local;
struct session {
	struct session *next;
	char rest[112];
};
static struct session *volatile sessions;
/* Where a block was last, so that the compiler keeps it. */
static void *volatile sink;
static volatile bool stands; /* the second thread */

static void *take(size_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	memset(block, 0, bytes);
	return block;
}

TARGET_FRAME static void lose(void)
{
	struct node *list = NULL;

	for (int i = 0; i < 10; i++)
		sink = take(216);
	for (int i = 0; i < 20; i++) {
		struct node *node = take(sizeof(*node));

		node->next = list;
		list = node;
	}
	sink = list;
	for (int i = 0; i < 3; i++) {
		struct node *one = take(312), *other = take(312);

		one->next = other;
		other->next = one;
		sink = one;
	}
	sink = take(300000);
	sink = NULL;
}

/* Registers and the stack below forget them. */
TARGET_FRAME static void scrub(void)
{
	volatile char below[32768];

	memset((void *)(uintptr_t)below, 0, sizeof(below));
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void keep(void)
{
	inside = (char *)take(1000) + 504;
	tagged = (uintptr_t)take(520) | (uintptr_t)0xab << 56 | 1;
	for (int i = 0; i < 100; i++)
		table[i] = take(152);
}

TARGET_FRAME static void open_sessions(void)
{
	for (int i = 0; i < 200; i++) {
		struct session *session = take(sizeof(*session));

		session->next = sessions;
		sessions = session;
	}
}

TARGET_FRAME static void make_more(void)
{
	lose();
	open_sessions();
	scrub();
	TARGET_KEEP_FRAME();
}

/* Leaves a pointer where later calls of this depth do not write. */
TARGET_FRAME static void leave_stale(void)
{
	void *volatile deep[4096];

	deep[8] = take(824);
	(void)deep;
	TARGET_KEEP_FRAME();
}

static void *stand(void *unused)
{
	(void)unused;
	lose();
	local = take(1512);
	scrub();
	stands = true;
	for (;;)
		pause();
	return NULL;
}

/* At any moment each block is in one place: in one of two, or in a register. */
static void *move(void *unused)
{
	static void *volatile places[2][512];
	void *first = take(4008), *second = take(4008);

	(void)unused;
	places[0][0] = first;
	places[1][511] = second;
	first = second = NULL;
	for (;;) {
		void *one = places[0][0], *other = places[1][511];

		places[0][0] = NULL;
		places[1][511] = NULL;
		places[1][0] = one;
		places[0][511] = other;
		one = places[1][0];
		other = places[0][511];
		places[1][0] = NULL;
		places[0][511] = NULL;
		places[0][0] = one;
		places[1][511] = other;
	}
	return NULL;
}

static void *churn(void *unused)
{
	(void)unused;
	for (unsigned i = 0;; i++) {
		void *volatile block = malloc(24 + i % 7 * 400);

		free(block);
	}
	return NULL;
}

static void *grow(void *unused)
{
	(void)unused;
	for (;;) {
		open_sessions();
		usleep(2000);
	}
	return NULL;
}

static void begin(void *(*work)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL) != 0)
		target_broken("no thread");
}

int main(void)
{
	void *volatile held = take(712);
	char line[64];

	lose();
	keep();
	scrub();
	leave_stale();
	begin(stand);
	while (!stands)
		usleep(1000);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (!strcmp(line, "grow")) {
			target_say("0x%lx", (unsigned long)(uintptr_t)sessions);
			begin(grow);
			continue;
		}
		if (!strcmp(line, "move"))
			begin(move);
		else if (!strcmp(line, "churn"))
			begin(churn);
		else if (!strcmp(line, "more"))
			make_more();
		else
			target_broken("unknown command '%s'", line);
		target_say("done");
	}
	return held == NULL;
}
