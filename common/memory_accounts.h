/* The owners of a process's resident memory, as far as they are visible from outside, and the
 * report on the part that belongs to no allocator that limpet follows. */
#ifndef LIMPET_COMMON_MEMORY_ACCOUNTS_H
#define LIMPET_COMMON_MEMORY_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the trace: append new ones. */
enum limpet_memory_account {
	LIMPET_MEMORY_RSS = 0, /* all of it */
	LIMPET_MEMORY_UNKNOWN, /* private, anonymous, and none of the following */
	LIMPET_MEMORY_HEAP,    /* glibc's: its main heap, its arenas, its mmapped blocks */
	LIMPET_MEMORY_MAPPED,  /* mapped by mmap calls of the program that the capture saw */
	LIMPET_MEMORY_STACKS,
	LIMPET_MEMORY_FILES, /* modules with their data, other files */
	LIMPET_MEMORY_SHARED,
	LIMPET_MEMORY_CODE,  /* anonymous and executable */
	LIMPET_MEMORY_NAMED, /* anonymous, with a name (PR_SET_VMA_ANON_NAME) */
	LIMPET_MEMORY_OWN,   /* limpet's */
	LIMPET_MEMORY_ACCOUNTS
};
/* The words for them in reports. */
extern const char *const limpet_memory_words[LIMPET_MEMORY_ACCOUNTS];

struct limpet_memory {
	bool known;
	uint64_t bytes[LIMPET_MEMORY_ACCOUNTS];
};

/* Amounts below both limits of a pair are not reported. */
#define LIMPET_UNFOLLOWED_BYTES (4u << 20)
#define LIMPET_UNFOLLOWED_SHARE 0.05 /* of RSS */
#define LIMPET_UNFOLLOWED_GROWTH_BYTES (1u << 20)
#define LIMPET_UNFOLLOWED_GROWTH_SHARE 0.01

/* The unknown part, from the first and last known figures. */
struct limpet_unfollowed {
	bool known;
	bool has_growth; /* both are known */
	bool is_large, grows;
	bool matters; /* one of these, or an allocator is known that is not followed */
	uint64_t bytes, rss_bytes;
	int64_t growth_bytes;
	const char *names;
};
/* Either may be NULL or not known. `names`: known allocators that are not followed, "" if none; the
 * pointer is kept. */
struct limpet_unfollowed limpet_unfollowed_judge(const struct limpet_memory *first,
						 const struct limpet_memory *last,
						 const char *names);
/* Whether to look for such names: also if the program itself has mapped much memory, which an
 * allocator inside it may use. */
bool limpet_unfollowed_is_to_be_named(const struct limpet_memory *first,
				      const struct limpet_memory *last);
/* "38.0 MiB of 84.0 MiB RSS belong to no allocator that limpet follows; they grew by 12.0 MiB
 * (mimalloc in bun)". Truncated if it does not fit. */
void limpet_unfollowed_say(const struct limpet_unfollowed *unfollowed, char *ret, size_t room);
/* The same as a sentence of its own, without the full stop: "The heap of V8 cannot be ...". */
void limpet_unfollowed_sentence(const struct limpet_unfollowed *unfollowed, char *ret, size_t room);

#endif
