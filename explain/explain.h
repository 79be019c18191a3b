/* Accounts for a process's resident memory, from outside: to what it belongs, what of it is free,
 * and what would give it back. No thread is stopped and nothing in the process is changed; only
 * pages that are present are read.
 *
 * The process runs meanwhile, so figures of different accounts are of slightly different moments.
 * The kernel holds the lock of a mapping against mmap(2) while it sums up the mapping (smaps),
 * 15 ms per GiB, and longer on a busy machine. All texts may contain bytes that the process has
 * chosen: clean them to print. */
#ifndef LIMPET_EXPLAIN_EXPLAIN_H
#define LIMPET_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/resident_account.h"
#include "explain/explanation.h"

struct limpet_target;

/* -errno with a message: -ESRCH, -EACCES... */
int limpet_explain(const struct limpet_target *target, struct limpet_explanation *ret_explanation,
		   struct limpet_err *err) LIMPET_MUST_CHECK;
/* The same with at most so many reads; public for tests. */
int limpet_explain_within(const struct limpet_target *target, uint64_t reads,
			  struct limpet_explanation *ret_explanation,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_explanation_done(struct limpet_explanation *explanation);
/* What a trace keeps of it, `rows` to be freed. -ENOMEM. */
int limpet_explanation_account(const struct limpet_explanation *explanation,
			       struct limpet_resident_account *ret_account) LIMPET_MUST_CHECK;

#endif
