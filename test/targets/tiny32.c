/* tiny32: a 32-bit program without any library, so that no 32-bit libc is needed to build it. Says
 * "ready" by being there, and waits for a signal. */
void _start(void);

static long call2(long number, long a, long b)
{
	long answer;

	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(a), "c"(b) : "memory");
	return answer;
}

void _start(void)
{
	enum { SYS32_PAUSE = 29, SYS32_EXIT = 1 };

	for (;;)
		if (call2(SYS32_PAUSE, 0, 0) != -4)
			call2(SYS32_EXIT, 70, 0);
}
