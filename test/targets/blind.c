/* blind: waits in code that nobody has described, in the middle of a call of its allocator or not.
 *
 * Command: "wait WHERE POINTER": it says "waiting", and "done" after one more line. WHERE: "main",
 * "malloc", or "signal", in a handler. POINTER, the frame pointer meanwhile: "one", which is none;
 * "zero", as in the first frame of a stack; "kept", that of whoever calls; "main", a frame far
 * above, whose return address is none. "quit". For "malloc" it has blind-malloc.so preloaded. */
#include <dlfcn.h>
#include <signal.h>

#include "test/targets/target.h"

long blind_read(int fd, void *byte, size_t bytes);

/* 2: it is left as it is. */
uint64_t blind_pointer;

/* No .cfi_startproc. */
__asm__(".text\n"
	".globl blind_read\n"
	".type blind_read, @function\n"
	"blind_read:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov blind_pointer(%rip), %rax\n"
	"	cmp $2, %rax\n"
	"	cmovne %rax, %rbp\n"
	"	xor %eax, %eax\n" /* read(2) */
	"	syscall\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size blind_read, . - blind_read\n");

/* With a frame pointer, as whole distributions are built. */
__attribute__((optimize("no-omit-frame-pointer"))) TARGET_FRAME static void wait_for_line(void)
{
	char byte;

	target_say("waiting");
	while (blind_read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		;
	TARGET_KEEP_FRAME();
}

static void on_signal(int number)
{
	(void)number;
	wait_for_line();
}

static void choose_pointer(const char *word, const volatile uint64_t *frame)
{
	if (!strcmp(word, "zero"))
		blind_pointer = 0;
	else if (!strcmp(word, "kept"))
		blind_pointer = 2;
	else if (!strcmp(word, "main"))
		blind_pointer = (uint64_t)(uintptr_t)frame;
	else
		blind_pointer = 1;
}

static void wait_in(const char *place)
{
	void (**asked)(void) = dlsym(RTLD_DEFAULT, "blind_asked");
	void *volatile block; /* or the compiler leaves it out */

	if (!strcmp(place, "signal")) {
		raise(SIGUSR1);
	} else if (!strcmp(place, "malloc")) {
		if (!asked)
			target_broken("blind-malloc.so is not there");
		*asked = wait_for_line;
		block = malloc(100);
		free(block);
	} else {
		wait_for_line();
	}
}

int main(void)
{
	/* An older frame pointer, and a return address into nowhere. */
	volatile uint64_t frame[2] = {1, 0x7f0000001000};
	char line[64], place[16], pointer[16];

	signal(SIGUSR1, on_signal);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) &&
	       sscanf(line, "wait %15s %15s", place, pointer) == 2) {
		choose_pointer(pointer, frame);
		wait_in(place);
		target_say("done");
	}
	return 0;
}
