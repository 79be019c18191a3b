#include "injector/hook/thunks.h"

#include "common/wire.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"

#define LEFT_MAGIC UINT64_C(0x5453504d554a504c) /* "LPJUMPST" */

static uint64_t last_word(uint64_t thunks)
{
	return thunks + 2 * LIMPET_THUNKS_BYTES - sizeof(uint64_t);
}

bool limpet_thunks_are(const struct limpet_map *map)
{
	return limpet_memfd_is_agent(map->path) && map->offset >= LIMPET_THUNKS_OFFSET;
}

bool limpet_thunks_were_left(pid_t pid, const struct limpet_map *map)
{
	uint64_t word;

	return limpet_thunks_are(map) &&
	       limpet_memory_read_own(pid,
				      last_word(map->start - (map->offset - LIMPET_THUNKS_OFFSET)),
				      &word, sizeof(word)) == 0 &&
	       word == LEFT_MAGIC;
}

int limpet_thunks_leave(const struct limpet_target *target, uint64_t thunks)
{
	const uint64_t word = LEFT_MAGIC;

	return limpet_memory_write(target->pid, last_word(thunks), &word, sizeof(word));
}
