#include "injector/preflight/dormant.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "collector/control/control_client.h"
#include "common/array.h"
#include "common/clock.h"
#include "injector/hook/mseal.h"
#include "injector/hook/thunks.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memfd.h"
#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/watchdog.h"
#include "injector/remote/hijack.h"

#define INODES 8
#define SETTLE_NS 2000000000u

/* A process that maps a file of ours. */
struct holder {
	pid_t pid;
	bool agent, watched;
	size_t inode_count;
	uint64_t inodes[INODES];
};

struct holders {
	struct holder *list;
	size_t count, capacity;
};

static void note_mapping(struct holder *holder, const char *line)
{
	const char *field = line;
	struct limpet_map map = {.start = strtoull(line, NULL, 16)};
	uint64_t inode;
	char *path;

	/* proc(5): address perms offset dev inode path */
	for (int i = 0; i < 4; i++) {
		field = strchr(field, ' ');
		if (!field)
			return;
		field++;
		if (i == 0)
			snprintf(map.perms, sizeof(map.perms), "%.4s", field);
		if (i == 1)
			map.offset = strtoull(field, NULL, 16);
	}
	inode = strtoull(field, &path, 10);
	path += strspn(path, " ");
	map.path = path;
	if (!limpet_memfd_is_ours(path) || limpet_thunks_were_left(holder->pid, &map))
		return;
	if (limpet_memfd_is_agent(path) || limpet_hijack_is_stub(holder->pid, &map))
		holder->agent = true;
	for (size_t i = 0; i < holder->inode_count; i++) {
		if (holder->inodes[i] == inode)
			return;
	}
	if (holder->inode_count < INODES)
		holder->inodes[holder->inode_count++] = inode;
}

static int read_holder(pid_t pid, struct holder *ret)
{
	LIMPET_FCLOSE FILE *maps = NULL;
	LIMPET_FREE char *line = NULL;
	struct holder holder = {.pid = pid};
	size_t line_bytes = 0;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/maps", limpet_proc_root, limpet_proc_resident(pid));
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	errno = 0;
	while (getline(&line, &line_bytes, maps) > 0)
		note_mapping(&holder, line);
	if (ferror(maps))
		return errno ? -errno : -EIO;
	*ret = holder;
	return 0;
}

/* The watchdog shares a limpet's memory, and may exist for a moment after that limpet ended. */
static bool is_watchdog(const struct holder *holder)
{
	struct limpet_proc_status status;

	return !holder->agent && limpet_proc_status_read(holder->pid, &status) == 0 &&
	       !strcmp(status.name, LIMPET_WATCHDOG_NAME);
}

static int add_holder(struct holders *holders, const struct holder *holder)
{
	if (limpet_reserve(&holders->list, &holders->capacity, holders->count + 1,
			   sizeof(*holders->list)) < 0)
		return -ENOMEM;
	holders->list[holders->count++] = *holder;
	return 0;
}

static int find_holders(struct holders *holders)
{
	LIMPET_FREE pid_t *pids = NULL;
	int count = limpet_proc_pids(&pids), result = count < 0 ? count : 0;

	for (int i = 0; i < count && !result; i++) {
		struct holder holder = {0};

		/* A process that cannot be read (another user's, or gone) cannot be cleaned up
		 * either. */
		if (read_holder(pids[i], &holder) == 0 && holder.inode_count > 0 &&
		    !is_watchdog(&holder))
			result = add_holder(holders, &holder);
	}
	return result;
}

static bool share_memory(const struct holder *a, const struct holder *b)
{
	for (size_t i = 0; i < a->inode_count; i++) {
		for (size_t j = 0; j < b->inode_count; j++) {
			if (a->inodes[i] == b->inodes[j])
				return true;
		}
	}
	return false;
}

static void mark_watched(struct holders *holders)
{
	/* A collector, or a captured process whose collector we may not examine... */
	for (size_t i = 0; i < holders->count; i++) {
		struct limpet_control_capture capture;
		struct holder *holder = &holders->list[i];

		holder->watched = !holder->agent || limpet_control_find(holder->pid, &capture) == 0;
	}
	/* ...watches all processes that share memory with it: a captured process may have forked.
	 */
	for (size_t i = 0; i < holders->count; i++) {
		for (size_t j = 0; j < holders->count && !holders->list[i].watched; j++) {
			if (holders->list[j].watched &&
			    share_memory(&holders->list[i], &holders->list[j]))
				holders->list[i].watched = true;
		}
	}
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* `relative`: only those that share memory with it, except itself; NULL: all. */
static int list_dormant(const struct holder *relative, pid_t **ret_pids)
{
	struct holders holders = {0};
	pid_t *pids = NULL;
	int count = 0, result = find_holders(&holders);

	if (result == 0) {
		pids = calloc(holders.count + 1, sizeof(*pids));
		result = pids ? 0 : -ENOMEM;
	}
	if (result == 0) {
		mark_watched(&holders);
		for (size_t i = 0; i < holders.count; i++) {
			const struct holder *holder = &holders.list[i];

			if (!holder->watched && (!relative || (holder->pid != relative->pid &&
							       share_memory(holder, relative))))
				pids[count++] = holder->pid;
		}
		qsort(pids, (size_t)count, sizeof(*pids), compare_pids);
		*ret_pids = pids;
		result = count;
	}
	free(holders.list);
	return result;
}

int limpet_dormant_find(pid_t **ret_pids)
{
	return list_dormant(NULL, ret_pids);
}

int limpet_dormant_relatives(const struct limpet_target *target, pid_t **ret_pids)
{
	struct holder holder = {0};
	int result = read_holder(target->pid, &holder);

	return result ? result : list_dormant(&holder, ret_pids);
}

static int is_listed(pid_t pid)
{
	LIMPET_FREE pid_t *pids = NULL;
	int count = limpet_dormant_find(&pids);

	for (int i = 0; pids && i < count; i++)
		if (pids[i] == pid)
			return 1;
	return count < 0 ? count : 0;
}

/* A limpet that was killed, and its watchdog, keep their memory until they get a processor: a
 * process that has the memory but does not answer is checked again. */
int limpet_dormant_check(const struct limpet_target *target)
{
	const pid_t pid = target->pid;
	const uint64_t deadline_ns = limpet_monotonic_ns() + SETTLE_NS;
	const struct timespec pause = {0, 10000000};

	for (;;) {
		struct holder holder = {0};
		struct limpet_control_capture capture;
		int result = read_holder(pid, &holder);

		if (result != 0 || !holder.agent)
			return result;
		result = is_listed(pid);
		if (result != 0 || limpet_control_find(pid, &capture) == 0 ||
		    limpet_monotonic_ns() >= deadline_ns)
			return result;
		nanosleep(&pause, NULL);
	}
}

enum limpet_left limpet_dormant_probe(const struct limpet_target *target, struct limpet_err *err)
{
	struct limpet_maps maps;
	enum limpet_left left = LIMPET_LEFT_NOTHING;

	if (limpet_proc_maps_read(target->pid, &maps) < 0)
		return left;
	for (size_t i = 0; i < maps.count && left != LIMPET_LEFT_AGENT; i++) {
		if (limpet_thunks_were_left(target->pid, &maps.list[i]))
			left = LIMPET_LEFT_JUMPS;
		else if (limpet_memfd_is_agent(maps.list[i].path) ||
			 limpet_hijack_is_stub(target->pid, &maps.list[i]))
			left = LIMPET_LEFT_AGENT;
	}
	if (limpet_mseal_check(target, &maps)) {
		left = LIMPET_LEFT_MSEAL;
		limpet_mseal_explain(target, err);
	}
	limpet_proc_maps_done(&maps);
	return left;
}

bool limpet_dormant_is_frozen(const struct limpet_target *target, struct limpet_err *err)
{
	return limpet_cgroup_explain_frozen(target, err);
}
