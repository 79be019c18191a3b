/* sparse: blocks that keep pages, of which it knows what each function's blocks keep.
 *
 * "scatter N": blocks of 100 bytes until they lie on N pages, of which all but one on each page are
 * freed; then some of 96 bytes, which malloc(3) puts into the holes, and one large block, a part of
 * which is touched. Answers "scattered" and, as JSON, the bytes of pages that the blocks of each
 * function hold: a page is divided by the bytes that lie on it. "refill N": one more block
 * of 96 bytes on each of about N pages. "quit". */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "test/targets/target.h"

enum { PAGE = 4096, SMALL = 100, OTHER = 96, OTHERS = 3000, LARGE = 1 << 20, TOUCHED = 50 };

struct page {
	unsigned kept, other; /* bytes of blocks of either function */
};

TARGET_FRAME static char *sparse_keep(void)
{
	char *block = malloc(SMALL);

	TARGET_KEEP_FRAME();
	if (!block)
		target_broken("no memory");
	memset(block, 1, SMALL);
	return block;
}

TARGET_FRAME static char *sparse_fill(void)
{
	char *block = malloc(OTHER);

	TARGET_KEEP_FRAME();
	if (!block)
		target_broken("no memory");
	memset(block, 1, OTHER);
	return block;
}

TARGET_FRAME static char *sparse_touch(void)
{
	char *block = malloc(LARGE);

	TARGET_KEEP_FRAME();
	if (!block)
		target_broken("no memory");
	for (size_t i = 0; i < TOUCHED; i++)
		block[i * 2 * PAGE] = 1;
	return block;
}

static void *map(size_t bytes)
{
	void *mapped =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		target_broken("no memory");
	return mapped;
}

static void note(struct page *pages, uintptr_t base, size_t count, const char *block, size_t bytes,
		 bool kept)
{
	for (uintptr_t at = (uintptr_t)block; at < (uintptr_t)block + bytes; at++) {
		size_t page = (at - base) / PAGE;

		if (at < base || page >= count)
			target_broken("a block beyond the pages");
		(*(kept ? &pages[page].kept : &pages[page].other))++;
	}
}

static void answer(const struct page *pages, size_t count, size_t kept)
{
	double keep = 0, fill = 0;
	size_t held = 0, keep_alone = 0, fill_alone = 0;

	for (size_t i = 0; i < count; i++) {
		double all = pages[i].kept + pages[i].other;

		if (all == 0)
			continue;
		held++;
		keep += PAGE * pages[i].kept / all;
		fill += PAGE * pages[i].other / all;
		keep_alone += !pages[i].other;
		fill_alone += !pages[i].kept;
	}
	target_say("scattered {\"pages\":%zu,\"keep_blocks\":%zu,\"keep_live\":%zu,"
		   "\"keep_held\":%.0f,\"keep_alone\":%zu,\"fill_live\":%d,\"fill_held\":%.0f,"
		   "\"fill_alone\":%zu,\"touch_live\":%d,\"touch_held\":%d}",
		   held, kept, kept * SMALL, keep, keep_alone * PAGE, OTHERS * OTHER, fill,
		   fill_alone * PAGE, LARGE, TOUCHED * PAGE);
}

static void scatter(size_t wanted)
{
	const size_t most = wanted * (PAGE / SMALL) + 1;
	char **blocks = map(most * sizeof(*blocks));
	/* The heap goes on without a hole. */
	const size_t count = wanted + 16;
	struct page *pages = map(count * sizeof(*pages));
	size_t made = 0, kept = 0;
	uintptr_t base, last = 0;

	do {
		if (made == most)
			target_broken("more blocks than fit");
		blocks[made] = sparse_keep();
		made++;
	} while (((uintptr_t)blocks[made - 1] - (uintptr_t)blocks[0]) / PAGE < wanted);
	base = (uintptr_t)blocks[0] & ~(uintptr_t)(PAGE - 1);
	for (size_t i = 0; i < made; i++) {
		uintptr_t page = (uintptr_t)blocks[i] / PAGE;

		/* The first one that lies within its page. */
		if (page == last || ((uintptr_t)blocks[i] + SMALL - 1) / PAGE != page) {
			free(blocks[i]);
			continue;
		}
		last = page;
		kept++;
		note(pages, base, count, blocks[i], SMALL, true);
	}
	for (size_t i = 0; i < OTHERS; i++)
		note(pages, base, count, sparse_fill(), OTHER, false);
	(void)sparse_touch();
	answer(pages, count, kept);
}

/* Into the holes of blocks that are already there, a page apart as far as malloc(3) allows. */
static void refill(size_t pages)
{
	const size_t step = PAGE / (SMALL + 12);
	char **blocks = map(pages * step * sizeof(*blocks));

	for (size_t i = 0; i < pages * step; i++)
		blocks[i] = sparse_fill();
	for (size_t i = 0; i < pages * step; i++)
		if (i % step)
			free(blocks[i]);
}

int main(void)
{
	char line[100];
	unsigned long pages = 0;

	/* A large page would be resident where nothing was touched. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "quit"))
			return 0;
		if (sscanf(line, "refill %lu", &pages) == 1) {
			refill(pages);
			target_say("refilled");
		} else if (sscanf(line, "scatter %lu", &pages) == 1) {
			scatter(pages);
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
