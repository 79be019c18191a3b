/* regrow: reallocarray, which some allocators leave to the C library.
 *
 * Commands: "run N": N blocks are made, made larger and released, by reallocarray and free; "keep
 * N" keeps that many of 30 times 100 bytes; "quit". */
#include "test/targets/target.h"

TARGET_FRAME static void regrow_run(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		char *block = reallocarray(NULL, 3, i % 900 + 1), *larger;

		if (!block)
			target_broken("no memory");
		memset(block, 1, 3 * (i % 900 + 1));
		larger = reallocarray(block, 5, i % 900 + 1);
		if (!larger || larger[3 * (i % 900)] != 1)
			target_broken("the block is not what it was");
		free(larger);
	}
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void regrow_keep(unsigned long n)
{
	static void *volatile kept;

	while (n--)
		kept = reallocarray(NULL, 30, 100);
	if (!kept)
		target_broken("no memory");
}

int main(void)
{
	char line[64];
	unsigned long n;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &n)) {
			regrow_run(n);
			target_say("ran");
		} else if (target_word(line, "keep", &n)) {
			regrow_keep(n);
			target_say("kept");
		} else {
			break;
		}
	}
	return 0;
}
