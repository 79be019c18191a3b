/* above: leaves a function of its allocator in its middle for code whose stack lies above the
 * function's own: a handler whose alternate stack is an array of main()'s, and main() itself, which
 * a coroutine switches to. Both call the function again, and go on in there until they are told to
 * come back.
 *
 * "below N": main() leaves the function in its middle for a coroutine, whose stack lies below, and
 * which makes N blocks: "worked". "moved": a coroutine that left it goes on in another thread:
 * "outside".
 *
 * Commands: "handler", "coroutine" answer "inside"; from there "back" answers "outside", and "work
 * N", there or not, N blocks that are made and given back: "worked"; "quit". */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "test/targets/target.h"

enum { STACK_BYTES = 256 << 10, BLOCK = 24 };

static void (*in_the_middle)(void);
static ucontext_t above, below;

void *above_take(size_t size);
TARGET_FRAME void *above_take(size_t size)
{
	void (*leave)(void) = in_the_middle;
	void *block = malloc(size);

	if (!block)
		target_broken("no memory");
	in_the_middle = NULL;
	if (leave)
		leave();
	memset(block, 7, size);
	return block;
}

void above_give(void *block);
TARGET_FRAME void above_give(void *block)
{
	free(block);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++)
		above_give(above_take(BLOCK));
	target_say("worked");
}

/* Until it is told to come back. */
static void stay(void)
{
	unsigned long number;
	char line[64];

	target_say("inside");
	while (target_listen(line, sizeof(line)) && target_word(line, "work", &number))
		work(number);
	if (strcmp(line, "back") != 0)
		target_broken("what does %s mean?", line);
}

static void on_signal(int number)
{
	(void)number;
	above_give(above_take(BLOCK));
	stay();
}

static void raise_it(void)
{
	if (raise(SIGUSR1))
		target_broken("raise");
}

static void switch_to(ucontext_t *from, const ucontext_t *to)
{
	if (swapcontext(from, to))
		target_broken("swapcontext");
}

static void switch_up(void)
{
	switch_to(&below, &above);
}

static void coroutine(void)
{
	in_the_middle = switch_up;
	above_give(above_take(BLOCK));
}

static void *new_stack(void (*function)(void))
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED || (char *)stack > (char *)&stack || getcontext(&below))
		target_broken("a stack below this one");
	below.uc_stack.ss_sp = stack;
	below.uc_stack.ss_size = STACK_BYTES;
	below.uc_link = &above;
	makecontext(&below, function, 0);
	return stack;
}

static void run_coroutine(void)
{
	void *stack = new_stack(coroutine);

	switch_to(&above, &below);
	above_give(above_take(BLOCK));
	stay();
	switch_to(&above, &below);
	munmap(stack, STACK_BYTES);
}

static unsigned long below_count;

static void work_below(void)
{
	work(below_count);
}

static void switch_down(void)
{
	switch_to(&above, &below);
}

static void run_below(unsigned long count)
{
	void *stack = new_stack(work_below);

	below_count = count;
	in_the_middle = switch_down;
	above_give(above_take(BLOCK));
	munmap(stack, STACK_BYTES);
}

static void *go_on(void *nothing)
{
	switch_to(&above, &below);
	return nothing;
}

static void run_moved(void)
{
	void *stack = new_stack(coroutine);
	pthread_t thread;

	switch_to(&above, &below);
	if (pthread_create(&thread, NULL, go_on, NULL) || pthread_join(thread, NULL))
		target_broken("no thread");
	/* As by the next one that runs on it. */
	memset(stack, 0, STACK_BYTES);
	target_say("outside");
}

/* Somebody who can be hijacked meanwhile. */
static void *idle(void *nothing)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (;;)
		pause();
	return nothing;
}

TARGET_FRAME static void obey(void)
{
	unsigned long number;
	char line[64];

	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "handler", &number)) {
			in_the_middle = raise_it;
			above_give(above_take(BLOCK));
			target_say("outside");
		} else if (target_word(line, "coroutine", &number)) {
			run_coroutine();
			target_say("outside");
		} else if (target_word(line, "below", &number)) {
			run_below(number);
		} else if (target_word(line, "moved", &number)) {
			run_moved();
		} else if (target_word(line, "work", &number)) {
			work(number);
		} else {
			break;
		}
	}
}

/* Not in the frame of who calls the allocator: a frame so large is not copied. */
int main(void)
{
	char alternate[STACK_BYTES];
	const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	pthread_t thread;

	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) ||
	    pthread_create(&thread, NULL, idle, NULL))
		target_broken("cannot begin");
	target_say("ready %d", getpid());
	obey();
	return 0;
}
