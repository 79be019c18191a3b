/* Checks whether functions can do what the user's signatures say.
 *
 * A wrong signature takes something else for a size or a block, and the figures become impossible
 * for a process: petabytes that are live. Nothing is left out of the trace because of this; it is
 * reported, and the trace is not complete. One thread. */
#ifndef LIMPET_COLLECTOR_STREAM_PLAUSIBLE_H
#define LIMPET_COLLECTOR_STREAM_PLAUSIBLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/wire.h"

struct limpet_target;

/* A few impossible values do not prove a signature wrong: memory may be reserved and released at
 * once, and a thread may release a block that it got without a call. One in this many does, of at
 * least this many. */
#define LIMPET_PLAUSIBLE_SHARE 64u

struct limpet_plausible {
	uint64_t most_bytes; /* the largest address space that the process ever had; 0: unknown */
	uint64_t asked_ns;
	struct limpet_plausible_owner {
		uint64_t blocks, too_large, nowhere;
	} owners[LIMPET_HOOK_OWNERS + 1]; /* by LIMPET_HOOK_OWNER; 0: no owner is named */
	uint64_t releases, nowhere;
};

/* Notes a block that a function of this owner has allocated, or that one of any owner has released.
 */
void limpet_plausible_made(struct limpet_plausible *plausible, const struct limpet_target *target,
			   uint32_t owner, uint64_t address, uint64_t bytes);
void limpet_plausible_released(struct limpet_plausible *plausible, uint64_t address);

/* Finds the first owner whose signatures are wrong, with a message in *ret_words ("" if there is
 * none): `name` returns an owner's name. */
void limpet_plausible_judge(const struct limpet_plausible *plausible,
			    const char *(*name)(const void *context, uint32_t owner),
			    const void *context, char *ret_words, size_t bytes);

#endif
