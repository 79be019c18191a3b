/* Held only by vector registers of a sleeping thread: where a copy stands that is under way. */
#include "planted.h"

#include <sys/syscall.h>

static void *jobs[4];

PLANTED_FRAME static void *make_job(void)
{
	return block(104);
}

static void make_jobs(void)
{
	for (int i = 0; i < 4; i++)
		jobs[i] = make_job();
}

static void *work(void *unused)
{
	(void)unused;
	wiped(make_jobs);
	__asm__ volatile("movups (%0), %%xmm9; movups 16(%0), %%xmm14\n\t"
			 "movq $0, (%0); movq $0, 8(%0); movq $0, 16(%0); movq $0, 24(%0)\n\t"
			 "1: mov %1, %%eax; syscall; jmp 1b"
			 :
			 : "D"(jobs), "i"(SYS_pause)
			 : "rax", "rcx", "r11", "xmm9", "xmm14", "memory");
	return NULL;
}

void plant(void)
{
	start_thread(work);
}
