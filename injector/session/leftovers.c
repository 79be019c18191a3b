#include "injector/session/leftovers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/clock.h"
#include "injector/hook/inline_hook.h"
#include "injector/hook/thunks.h"
#include "injector/proc/memfd.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/remote/quiesce.h"

#define MAX_REMAINS 64u

struct leftovers {
	int fds[MAX_REMAINS];
	size_t fd_count;
	struct limpet_agent_place maps[MAX_REMAINS];
	uint64_t inodes[MAX_REMAINS]; /* of the shared file of each; 0: none was seen */
	size_t map_count;
};

static bool is_ours(const struct limpet_target *target, int fd)
{
	char name[32], link[64];

	snprintf(name, sizeof(name), "fd/%d", fd);
	return limpet_proc_link_read(target->pid, name, link, sizeof(link)) >= 0 &&
	       limpet_memfd_is_agent(link);
}

static int find_fds(const struct limpet_target *target, struct leftovers *leftovers)
{
	LIMPET_FREE int *fds = NULL;
	int count = limpet_proc_fds(target, &fds);

	for (int i = 0; i < count && leftovers->fd_count < MAX_REMAINS; i++)
		if (is_ours(target, fds[i]))
			leftovers->fds[leftovers->fd_count++] = fds[i];
	return count < 0 ? count : 0;
}

/* What one limpet had mapped for a call is one range: the agent's or the stub's code, and shared
 * memory right behind it; of a stub that ran in an agent, which has gone, the latter alone. */
static bool goes_on(const struct limpet_map *map, const struct limpet_map *before)
{
	return limpet_memfd_is_shared(map->path) && map->perms[3] == 's' &&
	       map->start == before->end &&
	       (limpet_memfd_is_agent(before->path) || map->inode == before->inode);
}

static bool begins(const struct limpet_target *target, const struct limpet_modules *modules,
		   const struct limpet_map *map)
{
	return limpet_hijack_is_stub(target->pid, map) ||
	       (limpet_memfd_is_agent(map->path) && !limpet_thunks_were_left(target->pid, map) &&
		!limpet_modules_find(modules, map->start));
}

/* What the program has cut off: another part of a file that was seen. */
static bool is_part(const struct leftovers *leftovers, const struct limpet_map *map)
{
	bool found = false;

	for (size_t i = 0; i < leftovers->map_count && !found; i++)
		found = leftovers->inodes[i] && leftovers->inodes[i] == map->inode;
	return found && limpet_memfd_is_shared(map->path) && map->perms[3] == 's';
}

static int find_maps(const struct limpet_target *target, const struct limpet_modules *modules,
		     struct leftovers *leftovers)
{
	const struct limpet_map *last = NULL;
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(target->pid, &maps);

	if (error)
		return error;
	for (size_t i = 0; i < maps.count && leftovers->map_count < MAX_REMAINS; i++) {
		const struct limpet_map *map = &maps.list[i];
		size_t at = leftovers->map_count;

		if (!begins(target, modules, map) && !(last && goes_on(map, last)) &&
		    !is_part(leftovers, map))
			continue;
		if (last && last->end == map->start) {
			leftovers->maps[--at].end = map->end;
		} else {
			leftovers->maps[at] =
				(struct limpet_agent_place){.start = map->start, .end = map->end};
			leftovers->inodes[leftovers->map_count++] = 0;
		}
		if (limpet_memfd_is_shared(map->path))
			leftovers->inodes[at] = map->inode;
		last = map;
	}
	limpet_proc_maps_done(&maps);
	return 0;
}

static int find(const struct limpet_target *target, const struct limpet_modules *modules,
		struct leftovers *ret)
{
	int error;

	ret->fd_count = ret->map_count = 0;
	error = find_fds(target, ret);
	return error ? error : find_maps(target, modules, ret);
}

int limpet_leftovers_find(const struct limpet_target *target, const struct limpet_modules *modules)
{
	struct leftovers leftovers;
	int error = find(target, modules, &leftovers);

	return error ? error : leftovers.fd_count || leftovers.map_count;
}

/* Leaves alone what is gone by now or is something else. */
static int remove_all(struct limpet_hijack *hijack, const struct limpet_target *target,
		      const struct leftovers *leftovers)
{
	int64_t answer = 0;

	for (size_t i = 0; i < leftovers->map_count && answer >= 0; i++)
		answer = limpet_hijack_syscall(hijack, SYS_munmap, leftovers->maps[i].start,
					       leftovers->maps[i].end - leftovers->maps[i].start);
	for (size_t i = 0; i < leftovers->fd_count && answer >= 0; i++)
		if (is_ours(target, leftovers->fds[i]))
			answer = limpet_hijack_syscall(hijack, SYS_close,
						       (uint64_t)leftovers->fds[i], 0);
	return answer < 0 ? (int)answer : 0;
}

/* While a stub runs, nothing can be known to be left behind. */
static int prove_unused(const struct limpet_hijack_setup *setup, const struct leftovers *leftovers)
{
	const struct limpet_quiesce_options options = {.wait = setup->wait};
	struct limpet_quiesce_stats stats;
	int error = 0;

	for (size_t i = 0; i < leftovers->map_count && !error; i++)
		error = limpet_quiesce_prove(setup->target->pid, &leftovers->maps[i], &options,
					     &stats);
	return error;
}

static bool same(const struct leftovers *a, const struct leftovers *b)
{
	if (a->fd_count != b->fd_count || a->map_count != b->map_count)
		return false;
	for (size_t i = 0; i < a->map_count; i++)
		if (a->maps[i].start != b->maps[i].start || a->maps[i].end != b->maps[i].end)
			return false;
	return !memcmp(a->fds, b->fds, a->fd_count * sizeof(*a->fds));
}

int limpet_leftovers_remove(const struct limpet_hijack_setup *setup,
			    const struct limpet_modules *modules, struct limpet_err *err)
{
	const struct limpet_inline_hook_setup inline_hooks = {.target = setup->target,
							      .wait = setup->wait};
	struct limpet_hijack_setup calls = *setup;
	struct leftovers before, after;
	struct limpet_hijack *hijack;
	int error, closing;

	calls.maps_nothing = true;
	/* An object that was proved unused and still exists is removed. A stub that ended by itself
	 * has removed its own. */
	for (;;) {
		/* Without an agent no jump leads here. If one does all the same, it is removed
		 * first. */
		error = limpet_inline_hook_switch_off(&inline_hooks);
		if (!error)
			error = find(setup->target, modules, &before);
		if (!error)
			error = prove_unused(setup, &before);
		if (!error)
			error = find(setup->target, modules, &after);
		if (error)
			return limpet_err_set(err, error,
					      "what an earlier limpet left in process %d is still "
					      "in use: %s",
					      setup->target->pid,
					      error == -EBADMSG ? "its memory was written over"
								: limpet_inline_hook_why(error));
		if (same(&before, &after))
			break;
		if (limpet_monotonic_ns() >= setup->wait.deadline_ns)
			return limpet_err_set(err, -EBUSY,
					      "what looks like leftovers of an earlier limpet in "
					      "process %d keeps changing",
					      setup->target->pid);
	}
	if (!after.fd_count && !after.map_count)
		return 0;
	error = limpet_hijack_find(&calls, &hijack, err);
	if (error)
		return error;
	error = remove_all(hijack, setup->target, &after);
	closing = limpet_hijack_finish(hijack);
	error = error ?: closing;
	return error ? limpet_err_set(err, error,
				      "cannot remove what an earlier limpet left in process %d: %s",
				      setup->target->pid, strerror(-error))
		     : 0;
}
