/* What of a live process's heap nothing points to any more.
 *
 * All memory is searched for pointers while the process runs (reach_graph.h). What is unreachable
 * stays unreachable: a false "lost" can only come from a pointer that was somewhere else each time,
 * or in a register. So the process is stopped once, for a bounded moment, in which as much as
 * possible of its memory is copied, registers and stacks first. If that is all of it, the copy
 * alone decides; otherwise memory is searched again, and what cannot be seen in the copy is
 * probably lost, no more. Only blocks of glibc's malloc are judged; all other memory is searched.
 */
#ifndef LIMPET_EXPLAIN_REACH_LEAKS_H
#define LIMPET_EXPLAIN_REACH_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/leak_counts.h"
#include "explain/reach/known_blocks.h"

struct limpet_target;

#define LIMPET_LEAKS_STOP_NS UINT64_C(20000000) /* usual */
#define LIMPET_LEAKS_STOP_MOST_NS UINT64_C(10000000000)

/* Blocks of one state that look alike: objects of one C++ class, or else of one size. */
struct limpet_leak_site {
	enum limpet_leak_state state;
	char *type;           /* symbol of its vtable; NULL: not known */
	uint64_t block_bytes; /* of each; 0: of a type */
	uint64_t example;     /* address of one */
	struct limpet_leak_amount amount;
};

enum limpet_leaks_stop {
	LIMPET_LEAKS_NO_STOP, /* not needed: everything is reachable */
	LIMPET_LEAKS_WHOLE,   /* all memory was copied in it */
	LIMPET_LEAKS_PART,    /* a part was */
	LIMPET_LEAKS_NOT_ALLOWED,
	LIMPET_LEAKS_BUSY, /* a thread sleeps in a call that would notice, or does not stop */
	LIMPET_LEAKS_TRACED
};

struct limpet_leaks_options {
	uint64_t most_stop_ns; /* 0: never stop it */
	/* Blocks of other allocators to be judged, too; NULL: none are known. */
	const struct limpet_known_blocks *known;
	/* Of each known block its enum limpet_leak_state, or _STATES: it was not found. The
	 * caller's; filled in if the blocks are judged. */
	uint8_t *ret_states;
};

struct limpet_leaks {
	bool has_glibc;
	bool is_judged; /* otherwise nothing is known, because: */
	bool is_late;   /* the time, or the room for blocks, was too little */
	bool is_swapped;
	size_t unread_arenas;
	uint64_t searched_bytes, copied_bytes; /* the latter while it was stopped */
	uint64_t missed_bytes;                 /* there, but could not be read */
	struct limpet_leak_amounts amounts;    /* usable bytes */
	enum limpet_leaks_stop stop;
	uint64_t stop_ns;
	size_t threads;                 /* that were stopped */
	struct limpet_leak_site *sites; /* of what is not reachable; by state, then bytes */
	size_t site_count, site_capacity;
};

/* The caller has seen that preflight does not refuse to stop threads, or allows no stop. -errno
 * with a message: -ESRCH, -EACCES, -ESTALE: the process executes another program by now... */
int limpet_leaks_read(const struct limpet_target *target,
		      const struct limpet_leaks_options *options, struct limpet_leaks *ret_leaks,
		      struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_leaks_done(struct limpet_leaks *leaks);

#endif
