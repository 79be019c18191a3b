/* blind: waits in code that nobody has described, with a frame pointer that is none; in the middle
 * of a call of its allocator, or not.
 *
 * Commands: "wait", "wait malloc" and "wait signal" (in a handler): it says "waiting", and "done"
 * after one more line; "quit". */
#include <signal.h>

#include "test/targets/target.h"

void *__libc_malloc(size_t bytes);
long blind_read(int fd, void *byte, size_t bytes);

/* No .cfi_startproc. */
__asm__(".text\n"
	".globl blind_read\n"
	".type blind_read, @function\n"
	"blind_read:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov $1, %ebp\n"
	"	xor %eax, %eax\n" /* read(2) */
	"	syscall\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size blind_read, . - blind_read\n");

static volatile bool in_malloc;

TARGET_FRAME static void wait_for_line(void)
{
	char byte;

	target_say("waiting");
	while (blind_read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		;
	TARGET_KEEP_FRAME();
}

/* The program's own: calls in it are calls of the allocator. */
TARGET_FRAME void *malloc(size_t bytes)
{
	if (in_malloc) {
		in_malloc = false;
		wait_for_line();
	}
	return __libc_malloc(bytes);
}

static void on_signal(int number)
{
	(void)number;
	wait_for_line();
}

int main(void)
{
	char line[64];

	signal(SIGUSR1, on_signal);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "wait malloc")) {
			void *volatile block; /* or the compiler leaves it out */

			in_malloc = true;
			block = malloc(100);
			free(block);
		} else if (!strcmp(line, "wait signal")) {
			raise(SIGUSR1);
		} else if (!strcmp(line, "wait")) {
			wait_for_line();
		} else {
			break;
		}
		target_say("done");
	}
	return 0;
}
