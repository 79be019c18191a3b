#include "injector/remote/stack_room.h"

#include <string.h>
#include <sys/resource.h>

#include "common/err.h"
#include "injector/proc/memory.h"
#include "injector/proc/tid_offset.h"

#define PAGE 4096u

/* The lowest address of the stack that the thread was given; 0: it stands on another one, or that
 * is not known. Other stacks may be right below, and goroutines and other coroutines have small
 * ones in the same mapping. */
static uint64_t lowest_in(const struct limpet_maps *maps, pid_t pid,
			  const struct limpet_tracee *tracee)
{
	const struct user_regs_struct *regs = limpet_tracee_regs(tracee);
	const struct limpet_map *map = limpet_proc_maps_find(maps, regs->rsp);

	if (!map || map->perms[0] != 'r' || map->perms[1] != 'w')
		return 0;
	if (limpet_tracee_tid(tracee) == pid && !strcmp(map->path, "[stack]"))
		return PAGE;
	/* Both libcs place the thread structure at the top of the stack that they map. */
	if (regs->fs_base <= regs->rsp || regs->fs_base >= map->end)
		return 0;
	return limpet_stack_lowest(pid, regs->fs_base, map->end, regs->rsp);
}

/* The thread may be younger than the maps at hand. */
static uint64_t lowest_of(const struct limpet_maps *maps, pid_t pid,
			  const struct limpet_tracee *tracee)
{
	uint64_t lowest = lowest_in(maps, pid, tracee);
	struct limpet_maps now;

	if (lowest || limpet_proc_maps_read(pid, &now) < 0)
		return lowest;
	lowest = lowest_in(&now, pid, tracee);
	limpet_proc_maps_done(&now);
	return lowest;
}

/* Whether the process itself could grow its first stack so far: if another one touches it, the
 * kernel checks the limits of that one. Preflight has seen that there is address space. */
static bool may_grow_to(pid_t pid, const struct limpet_map *map, uint64_t low)
{
	struct limpet_proc_status status;
	uint64_t stack, locked;

	return limpet_proc_status_read(pid, &status) == 0 &&
	       limpet_proc_limit(pid, "Max stack size", &stack) == 0 &&
	       limpet_proc_limit(pid, "Max locked memory", &locked) == 0 &&
	       map->end - low <= stack &&
	       (!status.locked_bytes || (status.locked_bytes <= locked &&
					 locked - status.locked_bytes >= map->start - low));
}

/* With a limit of our own that is as large as it takes. */
static int touch_stack(const struct limpet_tracee *tracee, uint64_t low, uint64_t bytes)
{
	struct rlimit own = {.rlim_cur = RLIM_INFINITY}, larger;
	int error;

	getrlimit(RLIMIT_STACK, &own);
	larger = own;
	if (larger.rlim_cur < bytes)
		larger.rlim_cur = bytes < own.rlim_max ? bytes : own.rlim_max;
	setrlimit(RLIMIT_STACK, &larger);
	error = limpet_tracee_touch(tracee, low);
	setrlimit(RLIMIT_STACK, &own);
	return error;
}

/* Below a large array that nothing touched yet the kernel's initial stack is as long as the last
 * call was deep, and grows with the next deeper one. */
static bool grow_first_stack(pid_t pid, const struct limpet_tracee *tracee, uint64_t low)
{
	const uint64_t page = low & ~(uint64_t)(PAGE - 1);
	struct limpet_maps maps;
	const struct limpet_map *map;
	bool grew = false;

	if (limpet_tracee_tid(tracee) != pid || limpet_proc_maps_read(pid, &maps) < 0)
		return false;
	map = limpet_proc_maps_find(&maps, limpet_tracee_regs(tracee)->rsp);
	if (map && !strcmp(map->path, "[stack]") && page < map->start &&
	    may_grow_to(pid, map, page))
		grew = touch_stack(tracee, low, map->end - page) == 0;
	limpet_proc_maps_done(&maps);
	return grew;
}

/* No further than it is needed: some kernels give a page that is only read its memory. */
bool limpet_stack_room_find(pid_t pid, const struct limpet_maps *maps,
			    const struct limpet_tracee *tracee, uint64_t *ret_low)
{
	const uint64_t sp = limpet_tracee_regs(tracee)->rsp, lowest = lowest_of(maps, pid, tracee);
	uint64_t below[LIMPET_STACK_WANTED / PAGE];
	size_t pages;

	if (!lowest || sp < lowest || sp - lowest < LIMPET_STACK_WANTED)
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(below); i++)
		below[i] = sp - (i + 1) * PAGE;
	pages = limpet_memory_probe(pid, below, LIMPET_COUNT_OF(below));
	if (pages < LIMPET_COUNT_OF(below) &&
	    grow_first_stack(pid, tracee, sp - LIMPET_STACK_WANTED))
		pages = limpet_memory_probe(pid, below, LIMPET_COUNT_OF(below));
	if (pages == LIMPET_COUNT_OF(below))
		*ret_low = sp - LIMPET_STACK_WANTED;
	return pages == LIMPET_COUNT_OF(below);
}
