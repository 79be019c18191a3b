/* Who holds blocks of a live process's heap: chains of pointers that lead to them from its data and
 * stacks, and what would be free without them.
 *
 * Memory is searched once while the process runs (reach_graph.h); no thread is stopped. So the
 * picture is of some moments, without registers: each link is read again before it is returned, of
 * the first one only whether it points into the heap still. Of a thread that sleeps the part of its
 * stack that is in use is searched, of another one all. Only blocks of glibc's malloc are known,
 * and those that the caller knows. Takes 35 bytes a block, 4 a pointer between blocks (up to 512
 * MiB) and 16 one from elsewhere (up to 256 MiB). */
#ifndef LIMPET_EXPLAIN_REACH_HOLDERS_H
#define LIMPET_EXPLAIN_REACH_HOLDERS_H

#include "common/err.h"
#include "explain/reach/holder_search.h"
#include "explain/reach/known_blocks.h"
#include "injector/elf/modules.h"

struct limpet_holders;

struct limpet_holders_facts {
	bool has_glibc;
	bool is_known; /* the blocks are; otherwise there is nothing more, because: */
	bool is_late;  /* the time, or the room for blocks, was too little */
	bool is_swapped;
	bool is_cut; /* there were more pointers than there is room for: chains may be missing */
	uint64_t searched_bytes;
	uint64_t missed_bytes; /* there, but could not be read */
	size_t unread_arenas;
};

/* The caller owns *ret_holders; `target` and `known`, which may be NULL, must outlive it. -errno
 * with a message: -ESRCH, -EACCES, -ESTALE: the process executes another program by now... */
int limpet_holders_read(const struct limpet_target *target, const struct limpet_known_blocks *known,
			struct limpet_holders **ret_holders,
			struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_holders_free(struct limpet_holders *holders);
const struct limpet_holders_facts *limpet_holders_facts(const struct limpet_holders *holders);

/* What lies at an address. */
enum limpet_holder_place {
	LIMPET_PLACE_NOTHING, /* nothing is mapped */
	LIMPET_PLACE_HEAP,    /* glibc's, but no block in use: it is free, or malloc's own */
	LIMPET_PLACE_DATA,    /* a module's data or code */
	LIMPET_PLACE_STACK,
	LIMPET_PLACE_LOCAL,  /* thread-local data */
	LIMPET_PLACE_MAPPING /* anything else */
};
struct limpet_holder_root {
	enum limpet_holder_place kind;
	uint64_t address;
	const struct limpet_module *module;       /* of data; borrowed from `holders` */
	pid_t thread;                             /* of a stack; 0: not known */
	char thread_name[LIMPET_PROC_NAME_BYTES]; /* "" not known */
	const char *mapping;                      /* of others: path, "" anonymous; borrowed */
	uint64_t mapping_start, mapping_end;
};
void limpet_holders_place(const struct limpet_holders *holders, uint64_t address,
			  struct limpet_holder_root *ret_root);

/* Whose holders are wanted, once: the block that contains the address. -ENOENT: none does. */
int limpet_holders_choose(struct limpet_holders *holders, uint64_t address) LIMPET_MUST_CHECK;
/* Begins anew with these blocks, those of them that exist. -ENOENT: none does; -ENOMEM. */
int limpet_holders_choose_blocks(struct limpet_holders *holders,
				 const struct limpet_known_blocks *blocks) LIMPET_MUST_CHECK;
/* The same for the objects of C++ classes whose vtable `is_wanted`. -ENOENT: there are none;
 * -ENOMEM; -errno of /proc. */
int limpet_holders_choose_type(struct limpet_holders *holders,
			       bool (*is_wanted)(void *context, const char *symbol),
			       void *context) LIMPET_MUST_CHECK;
/* After limpet_holders_choose_type(): the types of which there are objects, by bytes. Borrowed. */
size_t limpet_holders_types(const struct limpet_holders *holders,
			    const struct limpet_holder_type **ret_list);
struct limpet_holder_amount limpet_holders_chosen(const struct limpet_holders *holders);
/* After limpet_holders_choose(): that block. */
struct limpet_holder_link {
	uint64_t address, bytes; /* usable */
	uint64_t offset;         /* of the pointer to it, in the block before; 0 of the first */
	uint64_t into;           /* where in this block it points */
	const char *type;        /* symbol of its vtable, borrowed; NULL: not known */
};
void limpet_holders_block(const struct limpet_holders *holders,
			  struct limpet_holder_link *ret_link);

struct limpet_holder_chain {
	struct limpet_holder_root root;
	struct limpet_holder_link *links; /* owned; the last one is a chosen block */
	size_t count;
};
void limpet_holder_chain_done(struct limpet_holder_chain *chain);
/* The next one, shortest first, each with another last pointer: 1; 0: there is none; -ENOMEM. */
int limpet_holders_next(struct limpet_holders *holders,
			struct limpet_holder_chain *ret_chain) LIMPET_MUST_CHECK;
/* No more chains in which a word of [start, end) points to a chosen block. */
void limpet_holders_leave_out(struct limpet_holders *holders, uint64_t start, uint64_t end);

/* What would be unreachable without the chosen blocks, with these; or without these words, and
 * without stacks if these do not count. */
struct limpet_holder_amount limpet_holders_retained(struct limpet_holders *holders);
struct limpet_holder_amount limpet_holders_retained_by(struct limpet_holders *holders,
						       uint64_t start, uint64_t end,
						       bool stacks_count);
/* The chosen blocks among those that the last call counted. */
struct limpet_holder_amount limpet_holders_retained_chosen(const struct limpet_holders *holders);

#endif
