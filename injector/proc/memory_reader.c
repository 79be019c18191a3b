#include "injector/proc/memory_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/begins.h"
#include "common/clock.h"
#include "common/file_io.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define PAGE ((uint64_t)4096)
#define RANGE_BYTES ((uint64_t)2 << 20)
#define RANGE_PAGES (RANGE_BYTES / PAGE)
#define KEPT_RANGES 1024u /* 2 GiB */
#define FRESH_NS ((uint64_t)20000000)
/* What is not present may be so a moment later, in a heap that grows. */
#define ABSENT_NS ((uint64_t)1000000)

/* Which pages of 2 MiB are present. */
struct range {
	uint64_t start, asked_ns; /* the latter 0: none */
	uint64_t bits[RANGE_PAGES / 64];
};

struct limpet_process_reader {
	struct limpet_memory_reader reader;
	int memory;
	struct limpet_pages *pages;
	uint64_t limit;                      /* no mapping is above */
	struct limpet_page_range *forbidden; /* of devices, or shared */
	size_t forbidden_count, forbidden_capacity;
	/* The budget, when it began, and what is left of it. */
	uint64_t reads, budget_ns, wall_ns;
	uint64_t begin_ns, processor_ns, reads_left;
	unsigned kept_percent; /* for later */
	bool is_over, cut;     /* now; ever */
	struct range ranges[KEPT_RANGES];
};

/* ------------------------------------------------------------------ what is present */

bool limpet_memory_reader_is_device(const char *path)
{
	static const char *const devices[] = {"/dev/",       "/sys/",   "/proc/",
					      "anon_inode:", "socket:", "/drm ",
					      "/dmabuf:",    "/[aio]",  "/secretmem"},
				 *const memory[] = {"/dev/zero", "/dev/shm/", "/dev/hugepages"};

	return !limpet_begins_any(path, memory, LIMPET_COUNT_OF(memory)) &&
	       limpet_begins_any(path, devices, LIMPET_COUNT_OF(devices));
}

static void mark(struct range *range, uint64_t start, uint64_t end, bool present)
{
	for (uint64_t at = start > range->start ? start : range->start;
	     at < end && at < range->start + RANGE_BYTES; at += PAGE) {
		const uint64_t page = (at - range->start) / PAGE, bit = (uint64_t)1 << page % 64;

		if (present)
			range->bits[page / 64] |= bit;
		else
			range->bits[page / 64] &= ~bit;
	}
}

static int read_range(struct limpet_process_reader *process, struct range *range, uint64_t start)
{
	const uint64_t end =
		process->limit - start < RANGE_BYTES ? process->limit : start + RANGE_BYTES;
	struct limpet_page_range present[LIMPET_PAGES_RANGES];

	*range = (struct range){.start = start};
	for (uint64_t at = start; at < end;) {
		int found = limpet_pages_next(process->pages, at, end, false, present, &at);

		if (found < 0)
			return found;
		for (int i = 0; i < found; i++)
			mark(range, present[i].start, present[i].end, true);
	}
	for (size_t i = 0; i < process->forbidden_count; i++)
		mark(range, process->forbidden[i].start, process->forbidden[i].end, false);
	range->asked_ns = limpet_monotonic_ns();
	return 0;
}

static bool is_present(const struct range *range, uint64_t page)
{
	return range->bits[page / 64] >> page % 64 & 1;
}

static int require_page(struct limpet_process_reader *process, uint64_t address, uint64_t now)
{
	const uint64_t start = address & ~(RANGE_BYTES - 1), page = (address - start) / PAGE;
	struct range *range = &process->ranges[start / RANGE_BYTES % KEPT_RANGES];

	if (!range->asked_ns || range->start != start || now > range->asked_ns + FRESH_NS ||
	    (!is_present(range, page) && now > range->asked_ns + ABSENT_NS)) {
		int error = read_range(process, range, start);

		if (error)
			return error;
	}
	return is_present(range, page) ? 0 : -ENODATA;
}

/* ------------------------------------------------------------------ reading */

static uint64_t without_kept(const struct limpet_process_reader *process, uint64_t all)
{
	return all - all * process->kept_percent / 100;
}

static bool is_over(struct limpet_process_reader *process, uint64_t now)
{
	const bool reads_are_over =
		process->reads - process->reads_left >= without_kept(process, process->reads);
	const uint64_t budget_ns = without_kept(process, process->budget_ns);

	if (!process->is_over && !reads_are_over && now <= process->begin_ns + budget_ns)
		return false;
	process->is_over = process->is_over || reads_are_over ||
			   now > process->begin_ns + without_kept(process, process->wall_ns) ||
			   limpet_thread_time_ns() - process->processor_ns > budget_ns;
	process->cut |= process->is_over;
	return process->is_over;
}

static bool is_spent(void *context)
{
	return is_over(context, limpet_monotonic_ns());
}

static int read_pages(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct limpet_process_reader *process = context;
	const uint64_t now = limpet_monotonic_ns();
	ssize_t got;

	if (is_over(process, now))
		return -ETIME;
	process->reads_left--;
	if (address >= process->limit || bytes > process->limit - address)
		return -EFAULT;
	for (uint64_t at = address & ~(PAGE - 1); at < address + bytes; at += PAGE) {
		int error = require_page(process, at, now);

		if (error)
			return error;
	}
	got = limpet_pread(process->memory, ret, bytes, address);
	if (got < 0)
		return (int)got;
	return (size_t)got < bytes ? -ESRCH : 0; /* its memory is gone */
}

int limpet_memory_reader_read_text(const struct limpet_memory_reader *reader, uint64_t address,
				   char *ret, size_t room)
{
	const uint64_t left = PAGE - address % PAGE;
	size_t first = left < room - 1 ? (size_t)left : room - 1;
	int error = limpet_memory_reader_read(reader, address, ret, first);

	if (error)
		return error;
	ret[first] = '\0';
	if (strlen(ret) == first && first < room - 1 &&
	    limpet_memory_reader_read(reader, address + first, ret + first, room - 1 - first) == 0)
		ret[room - 1] = '\0';
	return 0;
}

/* ------------------------------------------------------------------ a share */

static int read_share(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct limpet_memory_share *share = context;
	int error = -ETIME;

	if (share->reads_left) {
		share->reads_left--;
		error = limpet_memory_reader_read(share->of, address, ret, bytes);
	}
	share->was_cut |= error == -ETIME;
	return error;
}

static bool is_share_spent(void *context)
{
	const struct limpet_memory_share *share = context;

	return !share->reads_left || limpet_memory_reader_is_spent(share->of);
}

void limpet_memory_share_begin(struct limpet_memory_share *share,
			       const struct limpet_memory_reader *of, uint64_t reads)
{
	*share = (struct limpet_memory_share){
		.reader = {read_share, is_share_spent, share}, .of = of, .reads_left = reads};
}

/* ------------------------------------------------------------------ opening */

static int read_maps(struct limpet_process_reader *process, const struct limpet_target *target,
		     bool shared_too)
{
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(target->pid, &maps);

	if (error)
		return error;
	for (size_t i = 0; i < maps.count && !error; i++) {
		const struct limpet_map *map = &maps.list[i];

		/* [vsyscall] is not part of the address space. */
		if (map->end <= (uint64_t)INT64_MAX && map->end > process->limit)
			process->limit = map->end;
		if ((shared_too || map->perms[3] != 's') &&
		    !limpet_memory_reader_is_device(map->path))
			continue;
		error = limpet_reserve(&process->forbidden, &process->forbidden_capacity,
				       process->forbidden_count + 1, sizeof(*process->forbidden));
		if (!error && process->forbidden)
			process->forbidden[process->forbidden_count++] =
				(struct limpet_page_range){map->start, map->end};
	}
	limpet_proc_maps_done(&maps);
	return error;
}

/* Nothing is read if what is present cannot be known. */
static int try_pagemap(const struct limpet_target *target)
{
	LIMPET_CLOSE int fd = limpet_proc_open(target, "pagemap", O_RDONLY);
	uint64_t entry;
	ssize_t got;

	if (fd < 0)
		return fd;
	got = pread(fd, &entry, sizeof(entry), 0);
	if (got < 0)
		return limpet_errno();
	return got == sizeof(entry) ? 0 : -ESRCH;
}

int limpet_process_reader_new(const struct limpet_target *target,
			      struct limpet_process_reader **ret)
{
	struct limpet_process_reader *process = calloc(1, sizeof(*process));
	int error;

	if (!process)
		return -ENOMEM;
	process->reader = (struct limpet_memory_reader){read_pages, is_spent, process};
	limpet_process_reader_limit(process, LIMPET_MEMORY_READER_READS);
	limpet_process_reader_allow(process, LIMPET_MEMORY_READER_NS);
	process->memory = limpet_proc_open(target, "mem", O_RDONLY);
	error = process->memory < 0 ? process->memory : try_pagemap(target);
	if (!error)
		error = limpet_pages_new(target, LIMPET_PAGES_SCAN, &process->pages);
	if (!error) {
		limpet_pages_be_exact(process->pages);
		error = read_maps(process, target, false);
	}
	if (error) {
		limpet_process_reader_free(process);
		return error;
	}
	*ret = process;
	return 0;
}

int limpet_process_reader_read_shared(struct limpet_process_reader *process,
				      const struct limpet_target *target)
{
	process->forbidden_count = 0;
	return read_maps(process, target, true);
}

void limpet_process_reader_free(struct limpet_process_reader *process)
{
	if (!process)
		return;
	if (process->memory >= 0)
		close(process->memory);
	limpet_pages_free(process->pages);
	free(process->forbidden);
	free(process);
}

const struct limpet_memory_reader *limpet_process_reader(
	const struct limpet_process_reader *process)
{
	return &process->reader;
}

struct limpet_pages *limpet_process_reader_pages(struct limpet_process_reader *process)
{
	return process->pages;
}

bool limpet_process_reader_was_cut(const struct limpet_process_reader *process)
{
	return process->cut;
}

void limpet_process_reader_allow(struct limpet_process_reader *process, uint64_t ns)
{
	process->budget_ns = ns;
	process->wall_ns = ns * (LIMPET_MEMORY_READER_WALL_NS / LIMPET_MEMORY_READER_NS);
	process->begin_ns = limpet_monotonic_ns();
	process->processor_ns = limpet_thread_time_ns();
	process->is_over = false;
}

void limpet_process_reader_keep(struct limpet_process_reader *process, unsigned percent)
{
	process->kept_percent = percent;
	process->is_over = false;
}

void limpet_process_reader_limit(struct limpet_process_reader *process, uint64_t reads)
{
	process->reads = reads;
	process->reads_left = reads;
}
