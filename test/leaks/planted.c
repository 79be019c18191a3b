#include "planted.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIPE_BYTES = 48 << 10 };

static atomic_int mover_moves;
static atomic_int thread_tid;
static void *(*thread_run)(void *);
static void (*thread_step)(void);

void broken(const char *what)
{
	dprintf(STDERR_FILENO, "broken: %s\n", what);
	_exit(70);
}

int called(const char *name)
{
	return !strcmp(program_invocation_short_name, name);
}

PLANTED_FRAME void *block(size_t bytes)
{
	void *made = calloc(1, bytes);

	if (!made)
		broken("calloc");
	return made;
}

PLANTED_FRAME static void clear_registers(void)
{
	__asm__ volatile(
		"xor %%eax, %%eax; xor %%ecx, %%ecx; xor %%edx, %%edx; xor %%esi, %%esi\n\t"
		"xor %%edi, %%edi; xor %%r8d, %%r8d; xor %%r9d, %%r9d\n\t"
		"xor %%r10d, %%r10d; xor %%r11d, %%r11d\n\t"
		"pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2\n\t"
		"pxor %%xmm3, %%xmm3; pxor %%xmm4, %%xmm4; pxor %%xmm5, %%xmm5\n\t"
		"pxor %%xmm6, %%xmm6; pxor %%xmm7, %%xmm7"
		:
		:
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
		  "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc", "memory");
}

PLANTED_FRAME static void wipe(void)
{
	char room[WIPE_BYTES];

	memset(room, 0, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
	clear_registers();
}

PLANTED_FRAME void wiped(void (*step)(void))
{
	step();
	clear_registers();
	/* Once more: the first call may have bound memset, which saves registers on the stack. */
	wipe();
	wipe();
}

void pause_here(void)
{
	for (;;) {
		clear_registers();
		pause();
	}
}

PLANTED_FRAME static void *run_noted(void *unused)
{
	thread_tid = gettid();
	return thread_run(unused);
}

/* The kernel says in which system call a thread waits. */
static int is_in_pause(int tid)
{
	char path[64], line[16] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, line, sizeof(line) - 1) < 0)
		broken("/proc/self/task/TID/syscall");
	close(fd);
	return !strncmp(line, "34 ", 3);
}

static void create(void *(*run)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attributes, run, NULL))
		broken("pthread_create");
	pthread_attr_destroy(&attributes);
}

void start_thread(void *(*run)(void *))
{
	thread_run = run;
	create(run_noted);
	while (!thread_tid || !is_in_pause(thread_tid))
		usleep(1000);
}

static void *run_wiped(void *unused)
{
	(void)unused;
	wiped(thread_step);
	pause_here();
}

void start_wiped_thread(void (*step)(void))
{
	thread_step = step;
	start_thread(run_wiped);
}

void moving(void)
{
	mover_moves = 1;
}

void start_mover(void *(*run)(void *))
{
	create(run);
	while (!mover_moves)
		usleep(1000);
}

void rest(void)
{
	dprintf(STDOUT_FILENO, "READY %d\n", getpid());
	pause_here();
}

int main(void)
{
	wiped(plant);
	rest();
}
