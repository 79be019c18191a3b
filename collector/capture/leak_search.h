/* At the end of a capture with --leaks: which of its live blocks are lost, and which variables hold
 * the others.
 *
 * Another process searches the target's memory, with the live blocks as they are when it is
 * started. Meanwhile the capture goes on: a block that is freed until its end counts as neither.
 * One thread. */
#ifndef LIMPET_COLLECTOR_CAPTURE_LEAK_SEARCH_H
#define LIMPET_COLLECTOR_CAPTURE_LEAK_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/leak_counts.h"

struct limpet_leak_search;
struct limpet_module;
struct limpet_recorder;
struct limpet_target;

struct limpet_leak_variable {
	char name[LIMPET_LEAK_HOLDER_BYTES]; /* "sessions (server.c:31)" */
	uint64_t start, end;                 /* in the target */
};
/* The variable of a module at an address of the target. False: not known. Called in that other
 * process. */
typedef bool limpet_name_variable_fn(const struct limpet_target *target,
				     const struct limpet_module *module, uint64_t address,
				     struct limpet_leak_variable *ret);

/* `name` may be NULL. 0, -ENOMEM, or -errno of fork(2). */
int limpet_leak_search_begin(const struct limpet_target *target, struct limpet_recorder *recorder,
			     limpet_name_variable_fn *name, struct limpet_leak_search **ret);
/* Readable when it has ended. */
int limpet_leak_search_fd(const struct limpet_leak_search *search);
/* Takes the result if there is one by now: false if there is none yet. */
bool limpet_leak_search_has_ended(struct limpet_leak_search *search);
/* After the last event was recorded: *ret_counts is empty if the search failed. The caller frees
 * its sites. 0 or -ENOMEM. */
int limpet_leak_search_count(const struct limpet_leak_search *search,
			     struct limpet_recorder *recorder,
			     struct limpet_leak_counts *ret_counts);
/* Ends it, if it has not ended. */
void limpet_leak_search_free(struct limpet_leak_search *search);

#endif
