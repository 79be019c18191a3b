/* Held only by general registers of a sleeping thread. */
#include "planted.h"

#include <sys/syscall.h>

static void *jobs[5];

PLANTED_FRAME static void *make_job(void)
{
	return block(104);
}

static void make_jobs(void)
{
	for (int i = 0; i < 5; i++)
		jobs[i] = make_job();
}

static void *work(void *unused)
{
	(void)unused;
	wiped(make_jobs);
	__asm__ volatile("mov (%0), %%rbx; mov 8(%0), %%r12; mov 16(%0), %%r13\n\t"
			 "mov 24(%0), %%r14; mov 32(%0), %%r15\n\t"
			 "movq $0, (%0); movq $0, 8(%0); movq $0, 16(%0)\n\t"
			 "movq $0, 24(%0); movq $0, 32(%0)\n\t"
			 "1: mov %1, %%eax; syscall; jmp 1b"
			 :
			 : "D"(jobs), "i"(SYS_pause)
			 : "rax", "rcx", "r11", "rbx", "r12", "r13", "r14", "r15", "memory");
	return NULL;
}

void plant(void)
{
	start_thread(work);
}
