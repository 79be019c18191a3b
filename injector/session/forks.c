#include "injector/session/forks.h"

#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/remote/own_objects.h"

/* Shortest time between two scans for new processes; many times the duration of a scan is added, so
 * that a machine with thousands of processes is not kept busy. */
#define SCAN_NS 5000000u
#define SCAN_SHARE 20u
/* A number is assigned before its process can be seen. Where another process gets the processor in
 * between, it becomes visible within this time. */
#define BIRTH_NS 1000000000u
/* A child that will execute a program does so within this time, and is left alone until then. */
#define SETTLED_NS 20000000u

struct candidate {
	struct limpet_fork fork;
	uint64_t found_ns;
};

struct limpet_forks {
	pid_t pid;
	uint64_t control_page;
	uint64_t since_ticks; /* start of limpet: the agent is younger */
	uint64_t next_ns;
	uint64_t last_pid;    /* the last one that the kernel had assigned by the last scan */
	uint64_t last_pid_ns; /* when it was first read */
	uint64_t again_ns;    /* next scan if no other number has been assigned */
	pid_t *seen;          /* all processes at the last scan, ascending */
	size_t seen_count;
	struct candidate *list; /* oldest first */
	size_t count, capacity;
	pid_t *claimed;
	size_t claimed_count, claimed_capacity;
	struct limpet_forks_stats stats;
};

int limpet_forks_new(struct limpet_forks **ret)
{
	struct limpet_forks *forks = calloc(1, sizeof(*forks));

	if (!forks)
		return -ENOMEM;
	if (limpet_proc_start_time(getpid(), &forks->since_ticks) < 0)
		forks->since_ticks = 0;
	*ret = forks;
	return 0;
}

void limpet_forks_begin(struct limpet_forks *forks, const struct limpet_target *target,
			uint64_t control_page)
{
	forks->pid = target->pid;
	forks->control_page = control_page;
}

void limpet_forks_free(struct limpet_forks *forks)
{
	if (!forks)
		return;
	free(forks->seen);
	free(forks->list);
	free(forks->claimed);
	free(forks);
}

/* Recognizes the control page as fork leaves it. The process must also map the agent's image: a
 * page of its own may lie at the same address. Returns the inode of the image, or 0. */
static uint64_t silent_copy(pid_t pid, uint64_t control_page)
{
	uint64_t words, inode = 0;
	struct limpet_maps maps;

	if (limpet_memory_read_own(pid, control_page, &words, sizeof(words)) < 0 || words ||
	    limpet_proc_maps_read(pid, &maps) < 0)
		return 0;
	/* One of ours, if there is one: an earlier capture's thunks may have been left, too. */
	for (size_t i = 0; i < maps.count && !limpet_own_objects_has_inode(inode); i++)
		if (limpet_memfd_is_agent(maps.list[i].path))
			inode = maps.list[i].inode;
	limpet_proc_maps_done(&maps);
	return inode;
}

static bool is_same_process(const struct limpet_fork *fork)
{
	uint64_t ticks;

	return limpet_proc_start_time(fork->pid, &ticks) == 0 && ticks == fork->start_ticks;
}

bool limpet_fork_runs_on(const struct limpet_fork *fork)
{
	return is_same_process(fork) && limpet_own_objects_has_execution(fork->pid);
}

bool limpet_fork_is_silent(const struct limpet_fork *fork)
{
	return is_same_process(fork) &&
	       silent_copy(fork->pid, fork->control_page) == fork->image_inode;
}

/* A child that has executed another program by now, or is about to, in its parent's memory. */
static bool has_executed(const struct limpet_forks *forks, pid_t pid)
{
	struct limpet_proc_status status;

	return limpet_proc_status_read(pid, &status) == 0 &&
	       (status.ppid == forks->pid || limpet_forks_was_claimed(forks, status.ppid));
}

static void scan_child(struct limpet_forks *forks, pid_t pid, uint64_t now_ns)
{
	struct limpet_fork fork = {.pid = pid, .control_page = forks->control_page};

	if (limpet_proc_start_time(pid, &fork.start_ticks) < 0 ||
	    fork.start_ticks < forks->since_ticks)
		return;
	fork.image_inode = silent_copy(pid, forks->control_page);
	/* The agent of another capture is the business of that capture's limpet. */
	if (!limpet_own_objects_has_inode(fork.image_inode)) {
		/* Those of the first scan may have executed it before the attach. */
		if (!fork.image_inode && forks->seen && has_executed(forks, pid)) {
			forks->stats.found++;
			forks->stats.lost++;
		}
		return;
	}
	forks->stats.found++;
	if (limpet_reserve(&forks->list, &forks->capacity, forks->count + 1, sizeof(*forks->list)) <
	    0) {
		forks->stats.lost++;
		return;
	}
	forks->list[forks->count++] = (struct candidate){.fork = fork, .found_ns = now_ns};
}

/* The number that the kernel assigned last to any process or thread. If it is unknown, each call
 * returns another number. */
static uint64_t last_pid(const struct limpet_forks *forks)
{
	LIMPET_FREE char *text = NULL;
	const char *last;
	size_t bytes;

	if (limpet_proc_file_read(0, "loadavg", &text, &bytes) < 0)
		return forks->last_pid + 1;
	last = strrchr(text, ' ');
	return last ? strtoull(last + 1, NULL, 10) : forks->last_pid + 1;
}

/* Whether a process may have been created that the last scan has not seen. After a new number it is
 * looked again in growing steps. */
static bool may_have_new(struct limpet_forks *forks, uint64_t now_ns, bool at_once)
{
	/* Before the scan: a process created after this is found by the next one. */
	const uint64_t last = last_pid(forks);

	if (last != forks->last_pid) {
		forks->last_pid = last;
		forks->last_pid_ns = now_ns;
	} else if (!at_once &&
		   (now_ns < forks->again_ns || now_ns - forks->last_pid_ns > BIRTH_NS)) {
		return false;
	}
	forks->again_ns = now_ns + SCAN_NS + (now_ns - forks->last_pid_ns);
	return true;
}

void limpet_forks_scan(struct limpet_forks *forks, uint64_t now_ns, bool at_once)
{
	pid_t *pids = NULL;
	int count;

	if (now_ns < forks->next_ns && !at_once)
		return;
	forks->next_ns = now_ns + SCAN_NS;
	if (!may_have_new(forks, now_ns, at_once))
		return;
	count = limpet_proc_pids(&pids);
	if (count < 0)
		return;
	for (size_t i = 0, j = 0; i < (size_t)count; i++) {
		while (j < forks->seen_count && forks->seen[j] < pids[i])
			j++;
		if (j == forks->seen_count || forks->seen[j] != pids[i])
			scan_child(forks, pids[i], now_ns);
	}
	free(forks->seen);
	forks->seen = pids;
	forks->seen_count = (size_t)count;
	forks->next_ns += (limpet_monotonic_ns() - now_ns) * SCAN_SHARE;
}

static void drop(struct limpet_forks *forks, size_t at)
{
	memmove(&forks->list[at], &forks->list[at + 1],
		(forks->count - at - 1) * sizeof(*forks->list));
	forks->count--;
}

bool limpet_forks_is_due(const struct limpet_forks *forks, uint64_t now_ns)
{
	return forks->count && now_ns - forks->list[0].found_ns >= SETTLED_NS;
}

bool limpet_forks_claim(struct limpet_forks *forks, uint64_t now_ns, struct limpet_fork *ret)
{
	while (limpet_forks_is_due(forks, now_ns)) {
		struct limpet_fork first = forks->list[0].fork;

		drop(forks, 0);
		if (limpet_fork_is_silent(&first) &&
		    limpet_reserve(&forks->claimed, &forks->claimed_capacity,
				   forks->claimed_count + 1, sizeof(*forks->claimed)) == 0) {
			forks->claimed[forks->claimed_count++] = first.pid;
			*ret = first;
			return true;
		}
		forks->stats.lost++;
	}
	return false;
}

bool limpet_forks_wait(const struct limpet_forks *forks)
{
	return forks->count != 0;
}

bool limpet_forks_was_claimed(const struct limpet_forks *forks, pid_t pid)
{
	for (size_t i = 0; i < forks->claimed_count; i++)
		if (forks->claimed[i] == pid)
			return true;
	return false;
}

void limpet_forks_stats_read(const struct limpet_forks *forks, struct limpet_forks_stats *ret)
{
	*ret = forks->stats;
}
