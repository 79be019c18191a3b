/* shapes: stacks of every shape that code makes, again and again, with an allocation at the end of
 * each: alloca and arrays of variable length, frames that realign themselves, signal handlers over
 * leaf functions and prologues, on the thread's stack and on another, calls that never return as
 * the last instruction of a function, assembly with and without a description, coroutines, short
 * threads, callers that differ only far out, and a recursion deeper than any stack that is kept.
 *
 * Commands: "go" and "hold" start and stop the two threads; "count" answers the rounds and how many
 * stacks were deep, as JSON; "quit" ends with 0. */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "test/targets/target.h"

#define WORKERS 2
#define DEEP 1200u
#define STACK_BYTES 65536u

/* shapes_asm.S: each calls `function(argument)` from a frame of its own kind. */
typedef void *shape_call(void *(*function)(uint64_t), uint64_t argument);
extern shape_call shape_pushes, shape_framed, shape_undescribed;

struct worker {
	pthread_t thread;
	volatile int wanted; /* a signal that is to come now; 0: none */
	volatile unsigned handled;
	uint64_t random;
	unsigned rounds;
	ucontext_t home, coroutine;
	jmp_buf back;
	uint8_t *stack; /* of the coroutine */
};

static struct worker workers[WORKERS];
static __thread struct worker *self;
static volatile bool running, over, no_signals;
static unsigned long rounds, deep_stacks;

static TARGET_FRAME void *take(uint64_t bytes)
{
	void *block = malloc(bytes % 500 + 1);

	if (!block)
		target_broken("no memory");
	free(block);
	TARGET_KEEP_FRAME();
	return NULL;
}

/* ------------------------------------------------------------------ frames of variable size */

static TARGET_FRAME void variable(uint64_t bytes)
{
	volatile uint8_t *room = alloca(bytes % 3000 + 16);

	room[0] = 1;
	take(bytes);
	if (room[0] != 1)
		target_broken("a frame was overwritten");
}

static TARGET_FRAME void array(uint64_t bytes)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wvla"
	volatile uint32_t room[bytes % 700 + 1];
#pragma GCC diagnostic pop

	room[bytes % 700] = 7;
	take(bytes);
	if (room[bytes % 700] != 7)
		target_broken("an array was overwritten");
}

static TARGET_FRAME void realigned(uint64_t bytes)
{
	volatile uint8_t line[64] __attribute__((aligned(64)));
	volatile uint8_t *room = alloca(bytes % 300 + 16);

	line[5] = room[3] = 9;
	variable(bytes);
	if (line[5] + room[3] != 18)
		target_broken("a frame that realigned itself was overwritten");
}

/* ------------------------------------------------------------------ who called the caller
 *
 * Two functions with the same frame: from the allocation on the stack lies in the same places. */

static void left(unsigned levels, uint64_t choices);

static TARGET_FRAME void right(unsigned levels, uint64_t choices)
{
	if (!levels)
		take(48);
	else if (choices & 1)
		right(levels - 1, choices >> 1);
	else
		left(levels - 1, choices >> 1);
	TARGET_KEEP_FRAME();
}

static TARGET_FRAME void left(unsigned levels, uint64_t choices)
{
	if (!levels)
		take(47);
	else if (choices & 1)
		right(levels - 1, choices >> 1);
	else
		left(levels - 1, choices >> 1);
	TARGET_KEEP_FRAME();
}

static TARGET_FRAME void deep(unsigned levels)
{
	if (levels)
		deep(levels - 1);
	else
		take(1);
	TARGET_KEEP_FRAME();
}

/* ------------------------------------------------------------------ signals */

static void handle(int number)
{
	struct worker *worker = self;

	(void)number;
	take(worker->random);
	worker->wanted = 0;
	worker->handled++;
}

/* No frame, and words below the stack pointer. */
static TARGET_FRAME uint64_t leaf(const struct worker *worker, unsigned handled)
{
	volatile uint64_t words[8] = {1, 2, 3};
	uint64_t sum = 0;

	while (worker->handled == handled)
		sum += words[sum % 3];
	return sum;
}

/* Entered and left all the time. */
static TARGET_FRAME uint64_t brief(uint64_t a, uint64_t b)
{
	volatile uint64_t room[20];

	room[a % 20] = b;
	return room[a % 20] + a;
}

static TARGET_FRAME uint64_t busy(const struct worker *worker, unsigned handled)
{
	uint64_t sum = 0;

	while (worker->handled == handled)
		sum += brief(sum, sum + 1);
	return sum;
}

static TARGET_FRAME uint64_t interrupted(struct worker *worker, int number, bool in_leaf)
{
	unsigned handled = worker->handled;

	worker->wanted = number;
	return (in_leaf ? leaf(worker, handled) : busy(worker, handled)) + worker->handled;
}

static void *send_signals(void *unused)
{
	const struct timespec pause = {.tv_nsec = 20000};

	(void)unused;
	while (!no_signals) {
		for (int i = 0; i < WORKERS; i++) {
			int number = workers[i].wanted;
			unsigned handled = workers[i].handled;

			if (!number)
				continue;
			pthread_kill(workers[i].thread, number);
			while (workers[i].handled == handled)
				nanosleep(&pause, NULL);
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* ------------------------------------------------------------------ other ends */

static TARGET_FRAME __attribute__((noreturn)) void jump_back(struct worker *worker)
{
	take(worker->random);
	longjmp(worker->back, 1);
}

/* Its last instruction is a call: the return address is behind it. */
static TARGET_FRAME __attribute__((noreturn)) void never_returns(struct worker *worker)
{
	volatile uint64_t room[3] = {1};

	worker->random += room[0];
	jump_back(worker);
}

static TARGET_FRAME void jumped(struct worker *worker)
{
	if (setjmp(worker->back) == 0)
		never_returns(worker);
	TARGET_KEEP_FRAME();
}

static void coroutine(void)
{
	variable(self->random);
}

static TARGET_FRAME void switched(struct worker *worker)
{
	getcontext(&worker->coroutine);
	worker->coroutine.uc_stack.ss_sp = worker->stack;
	worker->coroutine.uc_stack.ss_size = STACK_BYTES;
	worker->coroutine.uc_link = &worker->home;
	makecontext(&worker->coroutine, coroutine, 0);
	if (swapcontext(&worker->home, &worker->coroutine) != 0)
		target_broken("swapcontext");
	TARGET_KEEP_FRAME();
}

static void *short_life(void *random)
{
	take((uintptr_t)random);
	array((uintptr_t)random);
	return NULL;
}

static TARGET_FRAME void others(struct worker *worker)
{
	pthread_t thread;
	void *block = calloc(3, worker->random % 90 + 1), *aligned = NULL;

	block = realloc(block, worker->random % 900 + 1);
	if (posix_memalign(&aligned, 64, 200) != 0)
		target_broken("posix_memalign");
	free(aligned);
	free(block);
	block = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED || munmap(block, 8192) != 0)
		target_broken("mmap");
	if (pthread_create(&thread, NULL, short_life, (void *)(uintptr_t)worker->random) != 0)
		target_broken("pthread_create");
	pthread_join(thread, NULL);
}

static TARGET_FRAME void all_shapes(struct worker *worker)
{
	uint64_t random = target_random(&worker->random);

	variable(random);
	array(random >> 8);
	realigned(random >> 16);
	for (unsigned i = 0; i < 8; i++)
		left(6, random >> 7 * i);
	shape_pushes(take, random);
	shape_framed(take, random);
	shape_undescribed(take, random);
	interrupted(worker, SIGUSR1, random & 1);
	interrupted(worker, SIGUSR2, random & 2);
	jumped(worker);
	switched(worker);
	if (worker->rounds % 4 == 0) {
		deep(DEEP);
		__atomic_fetch_add(&deep_stacks, 1, __ATOMIC_RELAXED);
	}
	if (worker->rounds % 8 == 1)
		others(worker);
	worker->rounds++;
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	static uint8_t signal_stacks[WORKERS][STACK_BYTES];

	self = argument;
	sigaltstack(&(stack_t){.ss_sp = signal_stacks[self - workers], .ss_size = STACK_BYTES},
		    NULL);
	while (!over)
		if (running)
			all_shapes(self);
		else
			nanosleep(&pause, NULL);
	return NULL;
}

int main(void)
{
	static uint8_t stacks[WORKERS][STACK_BYTES] __attribute__((aligned(16)));
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t sender;
	char line[128];
	unsigned long number;

	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	for (int i = 0; i < WORKERS; i++) {
		workers[i].random = 88172645463325252u + (uint64_t)i;
		workers[i].stack = stacks[i];
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			target_broken("pthread_create");
	}
	if (pthread_create(&sender, NULL, send_signals, NULL) != 0)
		target_broken("pthread_create");
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "go", &number)) {
			running = true;
			target_say("going");
		} else if (target_word(line, "hold", &number)) {
			running = false;
			target_say("held");
		} else if (target_word(line, "count", &number)) {
			target_say("{\"rounds\":%lu,\"deep\":%lu}",
				   __atomic_load_n(&rounds, __ATOMIC_RELAXED),
				   __atomic_load_n(&deep_stacks, __ATOMIC_RELAXED));
		} else if (target_word(line, "quit", &number)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	over = true;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	no_signals = true;
	pthread_join(sender, NULL);
	return 0;
}
