/* Whether what functions do whose signatures the user gave can be true.
 *
 * A wrong signature takes something else for a size or a block, and figures come out that no
 * process could have: petabytes that are live. Nothing is left out of the trace for that; it is
 * said, and the trace is not complete. One thread. */
#ifndef LIMPET_COLLECTOR_PLAUSIBLE_H
#define LIMPET_COLLECTOR_PLAUSIBLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/wire.h"

/* A few wrong ones do not condemn a signature: memory may be reserved and given back at once, and a
 * block may be released by a thread that has it from nowhere. One of so many does, of so many at
 * least. */
#define LIMPET_PLAUSIBLE_SHARE 64u

struct limpet_plausible {
	uint64_t most_bytes; /* that the process has ever had, in addresses; 0: unknown */
	uint64_t asked_ns;
	struct limpet_plausible_owner {
		uint64_t blocks, too_large, nowhere;
	} owners[LIMPET_HOOK_OWNERS + 1]; /* by LIMPET_HOOK_OWNER; 0: of no function with a name */
	uint64_t releases, nowhere;
};

/* A block that a function of that owner has made, or that one of any owner has released. */
void limpet_plausible_made(struct limpet_plausible *plausible, pid_t pid, uint32_t owner,
			   uint64_t address, uint64_t bytes);
void limpet_plausible_released(struct limpet_plausible *plausible, uint64_t address);

/* The first owner whose signatures do not hold, in words for *ret_words ("" if there is none):
 * `name` answers what people call an owner. */
void limpet_plausible_judge(const struct limpet_plausible *plausible,
			    const char *(*name)(const void *context, uint32_t owner),
			    const void *context, char *ret_words, size_t bytes);

#endif
