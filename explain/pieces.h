/* Present ranges of private anonymous memory, each with what it was recognized as. */
#ifndef LIMPET_EXPLAIN_PIECES_H
#define LIMPET_EXPLAIN_PIECES_H

#include "explain/glibc_heaps.h"
#include "injector/elf/memory_owners.h"
#include "injector/elf/modules.h"
#include "injector/elf/thread_stacks.h"

struct limpet_target;

struct limpet_piece {
	uint64_t start, end;
	enum limpet_memory_account account;
	/* Of UNKNOWN ones: recognized by the structures of a language's runtime. Static texts;
	 * NULL: not recognized. */
	const char *kind, *owner;
};

struct limpet_pieces {
	struct limpet_piece *list; /* sorted by address */
	size_t count, capacity;
	int error;                          /* -ENOMEM, or 0 */
	struct limpet_thread_stacks stacks; /* in STACKS pieces; there may be others */
};
void limpet_pieces_done(struct limpet_pieces *pieces);
/* Adds a piece, in any order; merges it with the last one if it continues it. */
void limpet_pieces_add(struct limpet_pieces *pieces, const struct limpet_piece *piece);
/* The first piece that ends above `address`. */
size_t limpet_pieces_from(const struct limpet_pieces *pieces, uint64_t address);

/* All pieces of a process with these heaps of glibc's malloc. 0 or -errno. */
int limpet_pieces_read(const struct limpet_target *target, const struct limpet_modules *modules,
		       const struct limpet_glibc_heaps *heaps,
		       struct limpet_pieces *ret_pieces) LIMPET_MUST_CHECK;

#endif
