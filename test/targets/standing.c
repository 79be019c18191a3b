/* standing: threads that stand where their names say, in chains of calls that are known.
 *
 *	reader    the first thread: waits for a command
 *	poller    waits in epoll_wait(2) without a limit
 *	writer    has written more into a pipe than it holds
 *	spinner   never sleeps; its innermost function is inlined
 *	handler   sleeps in a handler of SIGUSR1, which came while it waited
 *	pointers  its stack is full of pointers to code, and to itself
 *
 * Commands: "count" answers "interrupted N", how often a call ended with EINTR; "drain" reads the
 * pipe to its end and answers "drained BYTES WRITTEN", which are the same unless the write was cut
 * short; "quit" ends with 0. */
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

#define PIPE_BYTES (1u << 20)
#define STACK_BYTES (1u << 20)
#define THREADS 5u

static volatile unsigned interrupted;
static volatile long written;
static volatile bool waits, handled;
static volatile uint64_t spins;
static int full[2];
static uint8_t data[PIPE_BYTES];

/* ------------------------------------------------------------------ poller, writer */

static TARGET_FRAME void poll_here(void)
{
	struct epoll_event event;
	int fd = epoll_create1(0);

	while (epoll_wait(fd, &event, 1, -1) < 0)
		interrupted += errno == EINTR;
	TARGET_KEEP_FRAME();
}

static TARGET_FRAME void poll_there(void)
{
	poll_here();
	TARGET_KEEP_FRAME();
}

static TARGET_FRAME void write_here(void)
{
	written = write(full[1], data, sizeof(data));
	TARGET_KEEP_FRAME();
}

/* ------------------------------------------------------------------ spinner */

static inline __attribute__((always_inline)) void spin_inlined(void)
{
	for (;;)
		spins++;
}

static TARGET_FRAME void spin_here(void)
{
	spin_inlined();
	TARGET_KEEP_FRAME();
}

/* ------------------------------------------------------------------ handler */

static TARGET_FRAME void handle_here(void)
{
	handled = true;
	for (;;)
		pause();
}

static void on_signal(int number)
{
	(void)number;
	handle_here();
	TARGET_KEEP_FRAME();
}

static TARGET_FRAME void interrupted_here(void)
{
	waits = true;
	pause();
	TARGET_KEEP_FRAME();
}

/* ------------------------------------------------------------------ pointers */

/* Every word is an address of code or of this stack, and so are the registers. */
static TARGET_FRAME void fill_with_pointers(void)
{
	uint64_t *words =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const size_t count = STACK_BYTES / sizeof(*words);
	const uint64_t code[] = {(uintptr_t)poll_here + 5, (uintptr_t)write, (uintptr_t)spin_here,
				 (uintptr_t)target_broken, (uintptr_t)pthread_create + 9};
	uint64_t random = 4711;

	if (words == MAP_FAILED)
		target_broken("no memory");
	for (size_t i = 0; i < count; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		words[i] = random >> 62 ? code[(random >> 33) % 5]
					: (uintptr_t)&words[(random >> 33) % count];
	}
	__asm__ volatile("mov %0, %%rsp\n\t"
			 "mov %0, %%rbp\n\t"
			 "mov %0, %%rbx\n"
			 "1:\tmov %1, %%eax\n\t"
			 "syscall\n\t"
			 "jmp 1b"
			 :
			 : "r"(&words[count / 2]), "i"(SYS_pause)
			 : "memory", "rax", "rbx", "rcx", "r11");
}

/* ------------------------------------------------------------------ the whole */

static const struct standing {
	const char *name;
	void (*stand)(void);
} standings[THREADS] = {
	{"poller", poll_there},        {"writer", write_here},           {"spinner", spin_here},
	{"handler", interrupted_here}, {"pointers", fill_with_pointers},
};

static void *stand(void *argument)
{
	const struct standing *standing = argument;

	prctl(PR_SET_NAME, standing->name);
	standing->stand();
	return NULL;
}

static void drain(void)
{
	size_t bytes = 0;

	while (bytes < PIPE_BYTES) {
		ssize_t got = read(full[0], data, sizeof(data));

		if (got <= 0)
			target_broken("read: %s", strerror(errno));
		bytes += (size_t)got;
	}
	while (!written)
		sched_yield();
	target_say("drained %zu %ld", bytes, written);
}

static TARGET_FRAME void read_commands(void)
{
	char line[64];

	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "count"))
			target_say("interrupted %u", interrupted);
		else if (!strcmp(line, "drain"))
			drain();
		else if (!strcmp(line, "quit"))
			exit(0);
		else
			target_broken("what is '%s'?", line);
	}
	TARGET_KEEP_FRAME();
}

int main(void)
{
	const struct sigaction action = {.sa_handler = on_signal};
	pthread_t threads[THREADS];

	prctl(PR_SET_NAME, "reader");
	if (pipe(full) < 0 || sigaction(SIGUSR1, &action, NULL) < 0)
		target_broken("%s", strerror(errno));
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, stand, (void *)(uintptr_t)&standings[i]) != 0)
			target_broken("no thread");
	while (!waits)
		sched_yield();
	pthread_kill(threads[3], SIGUSR1);
	while (!handled)
		sched_yield();
	target_say("ready %d", getpid());
	read_commands();
	return 0;
}
