#include "injector/session/children.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "injector/hook/thunks.h"
#include "injector/proc/memfd.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/remote/own_objects.h"
#include "injector/remote/sharers.h"
#include "injector/session/session.h"

#define PATIENCE_NS 2000000000u /* for one child */

static bool maps_ours(pid_t pid)
{
	struct limpet_maps maps;
	bool holds = false;

	if (limpet_proc_maps_read(pid, &maps) < 0)
		return false;
	for (size_t i = 0; i < maps.count && !holds; i++)
		holds = limpet_memfd_is_ours(maps.list[i].path) &&
			!limpet_thunks_were_left(pid, &maps.list[i]) &&
			limpet_own_objects_has_inode(maps.list[i].inode);
	limpet_proc_maps_done(&maps);
	return holds;
}

/* A process forked from the target maps what the target maps. A process that shares the target's
 * memory has no copy of its own to clean. */
static bool holds_ours(pid_t pid, pid_t parent)
{
	return limpet_own_objects_has_execution(pid) && !limpet_sharers_share(parent, pid) &&
	       maps_ours(pid);
}

/* A process older than limpet was started before the agent was loaded. This rules out most
 * processes without another look. */
static bool is_older(pid_t pid, uint64_t since_ticks)
{
	uint64_t ticks;

	return limpet_proc_start_time(pid, &ticks) == 0 && ticks < since_ticks;
}

static int add(struct limpet_children *children, pid_t pid)
{
	if (limpet_reserve(&children->left, &children->left_capacity, children->left_count + 1,
			   sizeof(*children->left)) < 0)
		return -ENOMEM;
	children->left[children->left_count++] = pid;
	return 0;
}

struct search {
	struct limpet_tracer *tracer;
	pid_t parent;
	uint64_t since_ticks, deadline_ns;
	bool (*is_followed)(void *context, pid_t pid);
	void *context;
};

static bool clean(struct limpet_tracer *tracer, pid_t pid)
{
	struct limpet_target child;
	int error = limpet_target_open(pid, &child, NULL);

	if (!error)
		error = limpet_session_cleanup(tracer, &child, PATIENCE_NS, true, NULL);
	limpet_target_close(&child);
	return error >= 0;
}

/* Looks at every process once, and cleans or lists what it finds. */
static int clean_once(const struct search *search, struct limpet_children *children)
{
	DIR *directory = opendir(limpet_proc_root);
	struct dirent *entry;
	int error = 0;

	if (!directory)
		return -errno;
	while (!error && (entry = readdir(directory))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0 || pid == search->parent || pid == getpid() ||
		    is_older(pid, search->since_ticks) ||
		    (search->is_followed && search->is_followed(search->context, pid)) ||
		    !holds_ours(pid, search->parent))
			continue;
		if (limpet_monotonic_ns() < search->deadline_ns && clean(search->tracer, pid))
			children->cleaned++;
		/* An exiting process releases its memory first, and its descriptors later. */
		else if (limpet_proc_has_memory(pid) && holds_ours(pid, search->parent))
			error = add(children, pid);
	}
	closedir(directory);
	return error;
}

int limpet_children_clean(struct limpet_tracer *tracer, const struct limpet_target *parent,
			  uint64_t deadline_ns, bool (*is_followed)(void *context, pid_t pid),
			  void *context, struct limpet_children *ret)
{
	const unsigned enough = 8;
	struct search search = {.tracer = tracer,
				.parent = parent->pid,
				.deadline_ns = deadline_ns,
				.is_followed = is_followed,
				.context = context};

	memset(ret, 0, sizeof(*ret));
	/* The agent is younger than this limpet. */
	if (limpet_proc_start_time(getpid(), &search.since_ticks) < 0)
		search.since_ticks = 0;
	/* A child that is not yet cleaned may fork again: look until none is found. */
	for (unsigned i = 0; i < enough; i++) {
		const unsigned before = ret->cleaned;
		int error;

		ret->left_count = 0;
		error = clean_once(&search, ret);
		if (error || ret->cleaned == before)
			return error;
	}
	return -EAGAIN;
}

void limpet_children_done(struct limpet_children *children)
{
	free(children->left);
	memset(children, 0, sizeof(*children));
}
