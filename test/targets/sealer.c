/* sealer: seals parts of its memory by mseal(2), which this libc may not know yet.
 *
 * Commands: "seal WORD": every mapping whose name holds WORD, answered with their number; "take N":
 * N allocations; "quit". */
#include <sys/syscall.h>

#include "test/targets/target.h"

#define CALL_MSEAL 462

TARGET_FRAME static void take(unsigned long count)
{
	while (count--) {
		void *volatile block = malloc(333);

		if (!block)
			target_broken("no memory");
		free(block);
	}
}

static unsigned seal(const char *word)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	unsigned count = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, word) || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		if (syscall(CALL_MSEAL, start, end - start, 0))
			break;
		count++;
	}
	if (maps)
		fclose(maps);
	return count;
}

int main(void)
{
	char line[128];
	unsigned long n;

	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "seal", &n)) {
			target_say("sealed %u", seal(line + strlen("seal ")));
		} else if (target_word(line, "take", &n)) {
			take(n);
			target_say("taken");
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
