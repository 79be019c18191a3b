/* plain: one thread that allocates, in a program that handles no signals: musl then links no code
 * that returns from a handler.
 *
 *	plain [BYTES]
 *
 * BYTES: of an array in main() that nothing touches; all calls are made below it.
 *
 * Commands: "run N" allocates and frees N blocks of 100 bytes, resizes as many, and keeps one in
 * ten; "count" answers what was done as JSON; "quit". */
#include <alloca.h>

#include "test/targets/target.h"

static struct {
	uint64_t allocations, frees;
} counts;

TARGET_FRAME static void *plain_resize(void *block)
{
	void *larger = realloc(block, 300);

	if (!larger)
		target_broken("no memory");
	counts.allocations++;
	counts.frees++;
	return larger;
}

TARGET_FRAME static void plain_run(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++) {
		void *block = malloc(100);

		if (!block)
			target_broken("no memory");
		counts.allocations++;
		block = plain_resize(block);
		TARGET_KEEP_FRAME();
		if (i % 10) {
			free(block);
			counts.frees++;
		}
	}
}

int main(int argc, char **argv)
{
	char line[128];
	char *const array = alloca(argc > 1 ? strtoul(argv[1], NULL, 10) : 1);

	__asm__ volatile("" : : "r"(array)); /* or it would not be there */
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		unsigned long number;

		if (target_word(line, "run", &number)) {
			plain_run(number);
			target_say("ran");
		} else if (target_word(line, "count", &number)) {
			target_say("{\"allocations\":%lu,\"frees\":%lu}",
				   (unsigned long)counts.allocations, (unsigned long)counts.frees);
		} else if (target_word(line, "quit", &number)) {
			return 0;
		} else {
			target_broken("what is '%s'?", line);
		}
	}
	return 0;
}
