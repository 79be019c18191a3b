#include "collector/stream/plausible.h"

#include <stdbool.h>
#include <stdio.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

static bool is_nowhere(uint64_t address)
{
	return address < LIMPET_LOWEST_ADDRESS || address >= LIMPET_HIGHEST_ADDRESS;
}

#define ASK_NS 1000000u

/* The peak of a process's address space never shrinks: it is read again only for a larger block,
 * and not for each of many. */
static bool is_too_large(struct limpet_plausible *plausible, const struct limpet_target *target,
			 uint64_t bytes)
{
	struct limpet_proc_status status;
	uint64_t now_ns;

	if (bytes <= plausible->most_bytes)
		return false;
	now_ns = limpet_monotonic_ns();
	if (now_ns - plausible->asked_ns > ASK_NS) {
		plausible->asked_ns = now_ns;
		if (limpet_proc_status_read(target->pid, &status) == 0 && status.vm_most_bytes)
			plausible->most_bytes = status.vm_most_bytes;
	}
	return bytes > plausible->most_bytes &&
	       (plausible->most_bytes || bytes >= LIMPET_HIGHEST_ADDRESS);
}

void limpet_plausible_made(struct limpet_plausible *plausible, const struct limpet_target *target,
			   uint32_t owner, uint64_t address, uint64_t bytes)
{
	struct limpet_plausible_owner *of =
		&plausible->owners[owner <= LIMPET_HOOK_OWNERS ? owner : 0];

	of->blocks++;
	of->nowhere += is_nowhere(address);
	of->too_large += is_too_large(plausible, target, bytes);
}

void limpet_plausible_released(struct limpet_plausible *plausible, uint64_t address)
{
	plausible->releases++;
	plausible->nowhere += is_nowhere(address);
}

static bool is_too_many(uint64_t wrong, uint64_t of)
{
	return of >= LIMPET_PLAUSIBLE_SHARE && wrong >= of / LIMPET_PLAUSIBLE_SHARE;
}

void limpet_plausible_judge(const struct limpet_plausible *plausible,
			    const char *(*name)(const void *context, uint32_t owner),
			    const void *context, char *ret_words, size_t bytes)
{
	ret_words[0] = 0;
	for (uint32_t i = 1; i <= LIMPET_HOOK_OWNERS; i++) {
		const struct limpet_plausible_owner *of = &plausible->owners[i];
		bool too_large = is_too_many(of->too_large, of->blocks);

		if (!too_large && !is_too_many(of->nowhere, of->blocks))
			continue;
		snprintf(ret_words, bytes,
			 "a signature of allocator %.40s is wrong: %llu of %llu blocks are %s",
			 name(context, i),
			 (unsigned long long)(too_large ? of->too_large : of->nowhere),
			 (unsigned long long)of->blocks,
			 too_large ? "larger than the process" : "outside of its memory");
		return;
	}
	if (is_too_many(plausible->nowhere, plausible->releases))
		snprintf(ret_words, bytes,
			 "a signature is wrong: %llu of %llu released blocks are outside of its "
			 "memory",
			 (unsigned long long)plausible->nowhere,
			 (unsigned long long)plausible->releases);
}
