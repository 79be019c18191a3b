/* The allocators that are known by name: of their libraries, functions and messages. Each is an
 * entry of limpet_allocators[]; one whose functions can be followed where they are linked in has a
 * file of its own, allocator_NAME.c. */
#ifndef LIMPET_INJECTOR_ELF_ALLOCATORS_H
#define LIMPET_INJECTOR_ELF_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

enum limpet_entry_family {
	LIMPET_ENTRY_PLAIN,     /* malloc and its kin */
	LIMPET_ENTRY_OPERATORS, /* new and delete that the program has replaced */
	LIMPET_ENTRY_RUST_JE,   /* _rjem_* */
	LIMPET_ENTRY_JEMALLOC,  /* je_* */
	LIMPET_ENTRY_MIMALLOC,  /* mi_* */
	LIMPET_ENTRY_TCMALLOC,  /* tc_* */
	LIMPET_ENTRY_LISTED,    /* named by the user (entry_list.h) */
	LIMPET_ENTRY_FOUND,     /* without a name, by their calls (injector/hidden) */
	LIMPET_ENTRY_POOL,      /* limpet_pool_*, of agent/include/limpet.h */
	LIMPET_ENTRY_NIM,       /* Nim's own allocator (entry_nim.h) */
	LIMPET_ENTRY_FINDER,    /* not an allocator's: _dl_find_object of a static program's libc */
	LIMPET_ENTRY_FAMILIES
};

/* A function, by its name without the allocator's prefix. */
struct limpet_allocator_word {
	const char *name;
	enum limpet_op op;
	uint16_t skip;     /* number of leading arguments to ignore */
	bool also_of_heap; /* there is one with "heap_" before the name, and one more argument */
};
struct limpet_allocator_prefix {
	const char *prefix;
	enum limpet_entry_family family;
	const struct limpet_allocator_word *words;
	size_t count;
};
#define LIMPET_ALLOCATOR_PREFIX(prefix, family, words)                  \
	{                                                               \
		prefix, family, words, sizeof(words) / sizeof(*(words)) \
	}

/* How the names of functions begin that only the allocator has. */
struct limpet_allocator_proof {
	const char *prefix;
	enum limpet_entry_family family;
};

/* A message: HEAD "malloc" TAIL, kept in parts so that limpet itself does not contain it. */
struct limpet_allocator_text {
	bool is_upper;  /* HEAD "MALLOC" TAIL */
	unsigned group; /* texts of one group count once: where one is, the others are probable */
	const char *head, *tail;
};

/* Lists end with an entry of NULL, and may be NULL. */
struct limpet_allocator {
	const char *name;
	const char *library; /* "libfoo"; NULL: it has none */
	/* Of functions of which one says that it is linked in; with '*' at the end, a prefix. They
	 * are private to it: a program that merely links with jemalloc's library does not define
	 * je_malloc. */
	const char *const *markers;
	/* Functions with known names are not the whole of it. */
	bool is_more_than_names;
	const char *const *inside; /* how the names of its functions begin */
	const struct limpet_allocator_prefix *prefixes;
	const struct limpet_allocator_proof *proofs;
	const struct limpet_allocator_text *texts; /* ends with a tail of NULL */
};

extern const struct limpet_allocator limpet_allocator_jemalloc, limpet_allocator_mimalloc,
	limpet_allocator_tcmalloc;
/* Ends with NULL. */
extern const struct limpet_allocator *const limpet_allocators[];
#define LIMPET_ALLOCATORS_MOST 32u

#endif
