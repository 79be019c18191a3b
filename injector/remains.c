#include "injector/remains.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/clock.h"
#include "injector/footprint.h"
#include "injector/memfd.h"
#include "injector/near.h"
#include "injector/proc.h"
#include "injector/quiesce.h"
#include "injector/thunks.h"

#define MAX_REMAINS 64u

struct remains {
	int fds[MAX_REMAINS];
	size_t fd_count;
	struct limpet_agent_place maps[MAX_REMAINS];
	size_t map_count;
};

static bool is_ours(pid_t pid, int fd)
{
	char name[32], link[64];

	if (limpet_footprint_has(pid, fd))
		return true;
	snprintf(name, sizeof(name), "fd/%d", fd);
	return limpet_proc_link_read(pid, name, link, sizeof(link)) >= 0 &&
	       limpet_memfd_is_agent(link);
}

static int find_fds(pid_t pid, struct remains *remains)
{
	LIMPET_FREE int *fds = NULL;
	int count = limpet_proc_fds(pid, &fds);

	for (int i = 0; i < count && remains->fd_count < MAX_REMAINS; i++)
		if (is_ours(pid, fds[i]))
			remains->fds[remains->fd_count++] = fds[i];
	return count < 0 ? count : 0;
}

/* Neighbours are one mapping: code and scratch of a stub. */
static int find_maps(pid_t pid, const struct limpet_modules *modules, struct remains *remains)
{
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(pid, &maps);

	if (error)
		return error;
	for (size_t i = 0; i < maps.count && remains->map_count < MAX_REMAINS; i++) {
		const struct limpet_map *map = &maps.list[i];
		size_t count = remains->map_count;

		if (!limpet_memfd_is_agent(map->path) || limpet_thunks_were_left(pid, map) ||
		    limpet_modules_find(modules, map->start))
			continue;
		if (count && remains->maps[count - 1].end == map->start)
			remains->maps[count - 1].end = map->end;
		else
			remains->maps[remains->map_count++] =
				(struct limpet_agent_place){.start = map->start, .end = map->end};
	}
	limpet_proc_maps_done(&maps);
	return 0;
}

static int find(pid_t pid, const struct limpet_modules *modules, struct remains *ret)
{
	int error;

	ret->fd_count = ret->map_count = 0;
	error = find_fds(pid, ret);
	return error || !modules ? error : find_maps(pid, modules, ret);
}

int limpet_remains_find(pid_t pid, const struct limpet_modules *modules)
{
	struct remains remains;
	int error = find(pid, modules, &remains);

	return error ? error : remains.fd_count || remains.map_count;
}

/* What is gone by now, or is something else, is left alone. */
static int remove_all(struct limpet_borrow *borrow, pid_t pid, const struct remains *remains)
{
	int64_t answer = 0;

	for (size_t i = 0; i < remains->map_count && answer >= 0; i++)
		answer = limpet_borrow_syscall(borrow, SYS_munmap, remains->maps[i].start,
					       remains->maps[i].end - remains->maps[i].start);
	for (size_t i = 0; i < remains->fd_count && answer >= 0; i++)
		if (is_ours(pid, remains->fds[i]))
			answer = limpet_borrow_syscall(borrow, SYS_close, (uint64_t)remains->fds[i],
						       0);
	return answer < 0 ? (int)answer : 0;
}

/* A stub that still runs: nothing of what is there is known to be left behind. */
static int prove_unused(const struct limpet_borrow_setup *setup, const struct remains *remains)
{
	const struct limpet_quiesce_options options = {.deadline_ns = setup->deadline_ns,
						       .idle = setup->idle,
						       .idle_context = setup->idle_context};
	struct limpet_quiesce_stats stats;
	int error = 0;

	for (size_t i = 0; i < remains->map_count && !error; i++)
		error = limpet_quiesce_prove(setup->pid, &remains->maps[i], &options, &stats);
	return error;
}

static bool same(const struct remains *a, const struct remains *b)
{
	if (a->fd_count != b->fd_count || a->map_count != b->map_count)
		return false;
	for (size_t i = 0; i < a->map_count; i++)
		if (a->maps[i].start != b->maps[i].start || a->maps[i].end != b->maps[i].end)
			return false;
	return !memcmp(a->fds, b->fds, a->fd_count * sizeof(*a->fds));
}

int limpet_remains_remove(const struct limpet_borrow_setup *setup,
			  const struct limpet_modules *modules, struct limpet_err *err)
{
	const struct limpet_near_setup near = {.pid = setup->pid,
					       .deadline_ns = setup->deadline_ns,
					       .idle = setup->idle,
					       .idle_context = setup->idle_context};
	struct remains before, after;
	struct limpet_borrow *borrow;
	int error, closing;

	/* Proven unused and still there: a stub that ended by itself took its own away. */
	for (;;) {
		/* No jump leads there without an agent; if one does all the same, it goes first. */
		error = limpet_near_switch_off(&near);
		if (!error)
			error = find(setup->pid, modules, &before);
		if (!error)
			error = prove_unused(setup, &before);
		if (!error)
			error = find(setup->pid, modules, &after);
		if (error)
			return limpet_err_set(err, error,
					      "what an earlier limpet left in process %d is still "
					      "in use: %s",
					      setup->pid, strerror(-error));
		if (same(&before, &after))
			break;
		if (limpet_monotonic_ns() >= setup->deadline_ns)
			return limpet_err_set(err, -EBUSY,
					      "what looks like the remains of an earlier limpet in "
					      "process %d changes all the time",
					      setup->pid);
	}
	if (!after.fd_count && !after.map_count)
		return 0;
	error = limpet_borrow_find(setup, &borrow, err);
	if (error)
		return error;
	error = remove_all(borrow, setup->pid, &after);
	closing = limpet_borrow_finish(borrow);
	error = error ?: closing;
	return error ? limpet_err_set(err, error,
				      "cannot remove what an earlier limpet left in process %d: %s",
				      setup->pid, strerror(-error))
		     : 0;
}
