/* Which of the blocks that a capture recorded were lost at its end (`attach --leaks`), in all and
 * by site: as `limpet leaks` judges them. */
#ifndef LIMPET_COMMON_LEAK_COUNTS_H
#define LIMPET_COMMON_LEAK_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A trace with more sites, or longer texts, is damaged. */
#define LIMPET_LEAK_SITES_MAX 4096u
#define LIMPET_LEAK_HOLDER_BYTES 192u

/* Kept in traces: new ones come before _STATES. */
enum limpet_leak_state {
	LIMPET_LEAK_DEFINITELY, /* lost: nothing points to it, in a copy of one moment */
	LIMPET_LEAK_INDIRECTLY, /* only lost blocks do */
	LIMPET_LEAK_PROBABLY,   /* as the two before, but not all memory was copied at once */
	LIMPET_LEAK_POSSIBLY,   /* only interior pointers lead to it */
	LIMPET_LEAK_STACK_ONLY, /* only words of stacks do */
	LIMPET_LEAK_REACHABLE,
	LIMPET_LEAK_STATES
};

/* "definitely"...; static. */
static inline const char *limpet_leak_state_word(enum limpet_leak_state state)
{
	static const char *const words[] = {"definitely", "indirectly", "probably",
					    "possibly",   "stack_only", "reachable"};

	return words[state];
}

struct limpet_leak_amount {
	uint64_t blocks, bytes;
};

static inline bool limpet_leak_state_is_lost(enum limpet_leak_state state)
{
	return state <= LIMPET_LEAK_PROBABLY;
}

struct limpet_leak_amounts {
	struct limpet_leak_amount of[LIMPET_LEAK_STATES];
};
static inline struct limpet_leak_amount limpet_leak_amounts_lost(
	const struct limpet_leak_amounts *amounts)
{
	struct limpet_leak_amount sum = {0, 0};

	for (unsigned i = 0; i < LIMPET_LEAK_STATES; i++)
		if (limpet_leak_state_is_lost((enum limpet_leak_state)i)) {
			sum.blocks += amounts->of[i].blocks;
			sum.bytes += amounts->of[i].bytes;
		}
	return sum;
}

/* Of one stack, by its node. */
struct limpet_leak_site_counts {
	uint32_t node;
	struct limpet_leak_amounts amounts; /* of blocks that are live, in bytes as requested */
	/* The variable that leads to most of what is reachable, with file and line if they are
	 * known: "sessions (server.c:31)"; "": not known, or not asked. */
	char holder[LIMPET_LEAK_HOLDER_BYTES];
	uint64_t held_bytes; /* that only the holder (and stacks) lead to, of all blocks, usable; 0:
				not known */
};

struct limpet_leak_counts {
	bool known;
	bool is_certain; /* no block is "probably" lost for want of a copy, or of pages */
	uint64_t
		unjudged; /* live blocks that were made, or could not be found, during the search */
	uint64_t stop_ns; /* for which the program was stopped; 0: it was not */
	struct limpet_leak_amounts amounts; /* of all sites */
	/* Owned; by node; those that matter most if there are too many. */
	struct limpet_leak_site_counts *sites;
	size_t count;
};

#endif
