/* bundled: one thread that allocates by itself and through a library with an allocator inside.
 *
 * Commands: "run N": N blocks of each, resized, some of them kept; "count": what was done since the
 * start, as JSON; "quit". A realloc counts as a free and an allocation. */
#include "test/targets/bundle.h"
#include "test/targets/target.h"

static struct {
	unsigned long allocations, frees, allocated_bytes, kept;
} counts;

static void count(bool frees, size_t bytes)
{
	counts.frees += frees;
	counts.allocations += bytes != 0;
	counts.allocated_bytes += bytes;
}

TARGET_FRAME static void *own_new(size_t bytes)
{
	void *block = malloc(bytes);

	TARGET_KEEP_FRAME();
	return block;
}

static void check(const unsigned char *block, size_t bytes, unsigned char mark)
{
	if (!block || block[0] != mark || block[bytes - 1] != mark)
		target_broken("a block changed");
}

static void round_of(unsigned long i)
{
	size_t bytes = 20 + i % 700, more = bytes + 1 + i % 300;
	unsigned char *own = own_new(bytes), *theirs = bundle_new(bytes);

	if (!own || !theirs)
		target_broken("no memory");
	memset(own, 1, bytes);
	memset(theirs, 2, bytes);
	count(false, bytes);
	count(false, bytes);
	check(own, bytes, 1);
	check(theirs, bytes, 2);
	theirs = bundle_resize(theirs, more);
	count(true, more);
	check(theirs, bytes, 2);
	if (i % 10 == 0) {
		counts.kept++;
		return;
	}
	free(own);
	bundle_delete(theirs);
	count(true, 0);
	count(true, 0);
}

int main(void)
{
	char line[64];
	unsigned long number;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &number)) {
			for (unsigned long i = 0; i < number; i++)
				round_of(i);
			target_say("ran");
		} else if (target_word(line, "count", &number)) {
			target_say("{\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu,"
				   "\"kept\":%lu}",
				   counts.allocations, counts.frees, counts.allocated_bytes,
				   counts.kept);
		} else {
			break;
		}
	}
	return 0;
}
