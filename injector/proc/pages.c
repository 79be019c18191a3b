#include "injector/proc/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
/* Bytes per request. The kernel holds the lock of the process's mappings against mmap(2) during a
 * request: a millisecond for 1 GiB whose page tables all exist. */
#define SCAN_BYTES (UINT64_C(1) << 30)
/* Where nothing was found the next request is twice as large. It may lead over page tables of
 * memory that was given back, two microseconds each: of no more than TABLES_BYTES, so that the lock
 * is held for 16 ms at most. */
#define SCAN_MOST_BYTES (UINT64_C(256) << 30)
#define TABLES_BYTES (UINT64_C(32) << 20)
#define READ_PAGES 16384u
/* For larger mappings it pays to find out whether they are empty. In a process that holds more
 * memory than this the answer, a walk over all page tables, takes too long. */
#define LARGE_BYTES (UINT64_C(16) << 30)

/* include/uapi/linux/fs.h of Linux 6.7; older headers lack it.
 * Documentation/admin-guide/mm/pagemap.rst */
struct pages_region {
	uint64_t start, end, categories;
};
struct pages_scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGES_SCAN _IOWR('f', 16, struct pages_scan)
#define PAGES_IS_FILE (UINT64_C(1) << 2) /* or shared */
#define PAGES_IS_PRESENT (UINT64_C(1) << 3)
#define PAGES_IS_SWAPPED (UINT64_C(1) << 4)
#define PAGES_IS_ZERO (UINT64_C(1) << 5) /* the kernel's shared page of zeros */

struct limpet_pages {
	pid_t pid;
	int pagemap;
	bool can_scan, empty_known, present_only, exact, zero_known;
	struct limpet_page_range *empty; /* large mappings, sorted by address */
	size_t empty_count, empty_capacity;
	uint64_t scan_bytes, scan_most_bytes; /* of the next request; 0: not known yet */
	uint64_t zero_frame;                  /* of the kernel's page of zeros; 0: hidden */
	struct limpet_page_range *shared;     /* mappings with pages that others map, too */
	size_t shared_count, shared_capacity;
	struct pages_region regions[LIMPET_PAGES_RANGES];
	uint64_t entries[READ_PAGES];
};

int limpet_pages_new(const struct limpet_target *target, enum limpet_pages_way way,
		     struct limpet_pages **ret)
{
	struct limpet_pages *pages = calloc(1, sizeof(*pages));

	if (!pages)
		return -ENOMEM;
	pages->pid = limpet_proc_resident(target->pid);
	pages->can_scan = way == LIMPET_PAGES_SCAN;
	pages->scan_bytes = SCAN_BYTES;
	pages->pagemap = limpet_proc_open(target, "pagemap", O_RDONLY);
	*ret = pages;
	return 0;
}

void limpet_pages_free(struct limpet_pages *pages)
{
	if (!pages)
		return;
	if (pages->pagemap >= 0)
		close(pages->pagemap);
	free(pages->empty);
	free(pages->shared);
	free(pages);
}

void limpet_pages_leave_out_swapped(struct limpet_pages *pages)
{
	pages->present_only = true;
}

void limpet_pages_be_exact(struct limpet_pages *pages)
{
	pages->present_only = true;
	pages->exact = true;
}

bool limpet_pages_can_scan(const struct limpet_pages *pages)
{
	return pages->can_scan;
}

/* ---------------------------------------------------------------- by PAGEMAP_SCAN */

static uint64_t scan_most_bytes(const struct limpet_pages *pages)
{
	LIMPET_FREE char *text = NULL;
	const char *tables;
	size_t bytes;

	if (limpet_proc_file_read(pages->pid, "status", &text, &bytes) < 0)
		return SCAN_BYTES;
	tables = limpet_proc_status_value(text, "VmPTE");
	return tables && strtoull(tables, NULL, 10) * 1024 <= TABLES_BYTES ? SCAN_MOST_BYTES
									   : SCAN_BYTES;
}

/* `all`: the last request was as large as it may be, and found nothing. */
static void set_scan_bytes(struct limpet_pages *pages, bool all)
{
	if (!all) {
		pages->scan_bytes = SCAN_BYTES;
		return;
	}
	if (!pages->scan_most_bytes)
		pages->scan_most_bytes = scan_most_bytes(pages);
	if (pages->scan_bytes < pages->scan_most_bytes)
		pages->scan_bytes *= 2;
}

/* Any failure: this kernel cannot tell, or limpet is not allowed to ask. */
static int scan_ranges(struct limpet_pages *pages, uint64_t start, uint64_t end, bool own,
		       struct limpet_page_range *ret, uint64_t *ret_at)
{
	const uint64_t unwanted = PAGES_IS_ZERO | (own ? PAGES_IS_FILE : 0);
	struct pages_scan scan = {
		.size = sizeof(scan),
		.start = start,
		.end = end - start > pages->scan_bytes ? start + pages->scan_bytes : end,
		.vec = (uint64_t)(uintptr_t)pages->regions,
		.vec_len = LIMPET_PAGES_RANGES,
		.max_pages = READ_PAGES,
		.category_inverted = unwanted,
		.category_mask = unwanted,
		.category_anyof_mask =
			PAGES_IS_PRESENT | (pages->present_only ? 0 : PAGES_IS_SWAPPED),
	};
	int count = ioctl(pages->pagemap, PAGES_SCAN, &scan);

	if (count < 0)
		return -errno;
	if ((unsigned)count > LIMPET_PAGES_RANGES || scan.walk_end <= start ||
	    scan.walk_end > scan.end)
		return -EIO;
	for (int i = 0; i < count; i++)
		ret[i] = (struct limpet_page_range){pages->regions[i].start, pages->regions[i].end};
	*ret_at = scan.walk_end;
	if (count || scan.end < end)
		set_scan_bytes(pages, !count && scan.walk_end == scan.end);
	return count;
}

/* ---------------------------------------------------------------- by the pagemap itself */

/* Documentation/admin-guide/mm/pagemap.rst */
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_FILE (1ull << 61) /* or shared */
#define ENTRY_EXCLUSIVE (1ull << 56)
#define ENTRY_FRAME ((1ull << 55) - 1) /* zeros for those who may not know it */

static int add_empty(struct limpet_pages *pages, uint64_t start, uint64_t end)
{
	if (limpet_reserve(&pages->empty, &pages->empty_capacity, pages->empty_count + 1,
			   sizeof(*pages->empty)) < 0)
		return -ENOMEM;
	pages->empty[pages->empty_count++] = (struct limpet_page_range){start, end};
	return 0;
}

static int add_shared(struct limpet_pages *pages, uint64_t start, uint64_t end)
{
	if (limpet_reserve(&pages->shared, &pages->shared_capacity, pages->shared_count + 1,
			   sizeof(*pages->shared)) < 0)
		return -ENOMEM;
	pages->shared[pages->shared_count++] = (struct limpet_page_range){start, end};
	return 0;
}

/* A page of our own that was only read is that page. */
static uint64_t find_zero_frame(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	LIMPET_CLOSE int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (page == MAP_FAILED)
		return 0;
	(void)*(volatile char *)page;
	if (pagemap < 0 || pread(pagemap, &entry, sizeof(entry),
				 (off_t)((uintptr_t)page / PAGE * sizeof(entry))) != sizeof(entry))
		entry = 0;
	munmap(page, PAGE);
	return entry & (ENTRY_FILE | ENTRY_EXCLUSIVE) ? 0 : entry & ENTRY_FRAME;
}

static bool has_shared_pages(const struct limpet_smap *smap)
{
	uint64_t clean, dirty;

	return !limpet_smap_bytes(smap, "Shared_Clean", &clean) ||
	       !limpet_smap_bytes(smap, "Shared_Dirty", &dirty) || clean || dirty;
}

static void find_zero(struct limpet_pages *pages)
{
	struct limpet_proc_status status;
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	int error = 0;

	pages->zero_known = true;
	pages->zero_frame = find_zero_frame();
	if (limpet_proc_status_read(pages->pid, &status) < 0 || status.rss_bytes > LARGE_BYTES ||
	    limpet_proc_smaps_read(pages->pid, &smaps) < 0) {
		(void)add_shared(pages, 0, UINT64_MAX);
		return;
	}
	while (!error && limpet_proc_smaps_next(&smaps, &smap) > 0)
		if (has_shared_pages(&smap))
			error = add_shared(pages, smap.map.start, smap.map.end);
	limpet_proc_smaps_done(&smaps);
}

/* Whether entries that are neither of a file nor exclusive can be of the page of zeros alone. */
static bool has_zeros_only(struct limpet_pages *pages, uint64_t start, uint64_t end)
{
	if (!pages->exact)
		return false;
	if (!pages->zero_known)
		find_zero(pages);
	for (size_t i = 0; i < pages->shared_count; i++)
		if (pages->shared[i].start < end && pages->shared[i].end > start)
			return false;
	return true;
}

/* Huge pages of hugetlbfs do not count in Rss (Documentation/filesystems/proc.rst), nor does the
 * kernel's page of zeros. */
static bool holds_nothing(const struct limpet_smap *smap)
{
	static const char *const keys[] = {"Rss", "Swap", "Shared_Hugetlb", "Private_Hugetlb"};
	uint64_t bytes;

	for (size_t i = 0; i < LIMPET_COUNT_OF(keys); i++)
		if (!limpet_smap_bytes(smap, keys[i], &bytes) || bytes)
			return false;
	return true;
}

static void find_empty(struct limpet_pages *pages)
{
	struct limpet_proc_status status;
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	int error = 0;

	pages->empty_known = true;
	if (limpet_proc_status_read(pages->pid, &status) < 0 || status.rss_bytes > LARGE_BYTES ||
	    limpet_proc_smaps_read(pages->pid, &smaps) < 0)
		return;
	while (!error && limpet_proc_smaps_next(&smaps, &smap) > 0)
		if (smap.map.end - smap.map.start >= LARGE_BYTES && holds_nothing(&smap))
			error = add_empty(pages, smap.map.start, smap.map.end);
	limpet_proc_smaps_done(&smaps);
}

static bool is_empty(struct limpet_pages *pages, uint64_t start, uint64_t end)
{
	if (end - start < LARGE_BYTES)
		return false;
	if (!pages->empty_known)
		find_empty(pages);
	for (size_t i = 0; i < pages->empty_count; i++)
		if (start >= pages->empty[i].start && end <= pages->empty[i].end)
			return true;
	return false;
}

static bool is_zero(const struct limpet_pages *pages, uint64_t entry, bool zeros_only)
{
	if (!pages->exact || !(entry & ENTRY_PRESENT) || entry & (ENTRY_FILE | ENTRY_EXCLUSIVE))
		return false;
	return zeros_only || (pages->zero_frame && (entry & ENTRY_FRAME) == pages->zero_frame);
}

static bool is_wanted(const struct limpet_pages *pages, uint64_t entry, bool own, bool zeros_only)
{
	const uint64_t exists = pages->present_only ? ENTRY_PRESENT : ENTRY_PRESENT | ENTRY_SWAPPED;

	return entry & exists && !(own && entry & ENTRY_FILE) && !is_zero(pages, entry, zeros_only);
}

static int read_entries(struct limpet_pages *pages, uint64_t start, uint64_t end, bool own,
			struct limpet_page_range *ret, uint64_t *ret_at)
{
	uint64_t most = (uint64_t)READ_PAGES * PAGE;
	size_t count = end - start > most ? READ_PAGES : (size_t)((end - start) / PAGE), at = 0;
	unsigned ranges = 0;
	bool zeros_only;

	if (is_empty(pages, start, end)) {
		*ret_at = end;
		return 0;
	}
	if (pread(pages->pagemap, pages->entries, count * sizeof(*pages->entries),
		  (off_t)(start / PAGE * sizeof(*pages->entries))) !=
	    (ssize_t)(count * sizeof(*pages->entries))) {
		/* Unknown. Reading pages that were never touched makes the kernel allocate page
		 * tables for the process, which is acceptable for a mapping of ordinary size. */
		if (pages->present_only || end - start >= LARGE_BYTES)
			return -ENODATA;
		ret[0] = (struct limpet_page_range){start, start + count * PAGE};
		*ret_at = ret[0].end;
		return 1;
	}
	zeros_only = has_zeros_only(pages, start, end);
	while (at < count && ranges < LIMPET_PAGES_RANGES) {
		size_t run = at;

		while (run < count && is_wanted(pages, pages->entries[run], own, zeros_only))
			run++;
		if (run > at)
			ret[ranges++] =
				(struct limpet_page_range){start + at * PAGE, start + run * PAGE};
		at = run;
		while (at < count && !is_wanted(pages, pages->entries[at], own, zeros_only))
			at++;
	}
	*ret_at = start + at * PAGE;
	return (int)ranges;
}

int limpet_pages_next(struct limpet_pages *pages, uint64_t start, uint64_t end, bool own,
		      struct limpet_page_range ret[LIMPET_PAGES_RANGES], uint64_t *ret_at)
{
	int count;

	start &= ~(uint64_t)(PAGE - 1);
	end = (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	count = pages->can_scan ? scan_ranges(pages, start, end, own, ret, ret_at) : -ENOTTY;
	if (count >= 0)
		return count;
	pages->can_scan = false;
	return read_entries(pages, start, end, own, ret, ret_at);
}

/* Documentation/admin-guide/mm/pagemap.rst: "page exclusively mapped" since Linux 4.2. */
bool limpet_pages_are_shared(struct limpet_pages *pages, uint64_t start, uint64_t end)
{
	const uint64_t present = 1ull << 63, of_file = 1ull << 61, exclusive = 1ull << 56;
	const size_t count = (size_t)((end + PAGE - 1) / PAGE - start / PAGE);
	const size_t bytes = count * sizeof(*pages->entries);

	if (count > READ_PAGES ||
	    pread(pages->pagemap, pages->entries, bytes,
		  (off_t)(start / PAGE * sizeof(*pages->entries))) != (ssize_t)bytes)
		return true;
	for (size_t i = 0; i < count; i++)
		if ((pages->entries[i] & (present | of_file | exclusive)) == present)
			return true;
	return false;
}

int limpet_pages_count(const struct limpet_target *target, uint64_t start, uint64_t bytes,
		       uint64_t *ret_bytes, uint64_t *ret_file_bytes)
{
	const uint64_t first = start / PAGE, end = (start + bytes) / PAGE;
	LIMPET_CLOSE int pagemap = limpet_proc_open(target, "pagemap", O_RDONLY);
	uint64_t entries[512], pages = 0, of_files = 0;

	if (pagemap < 0)
		return pagemap;
	for (uint64_t at = first; at < end;) {
		uint64_t left = end - at;
		size_t count =
			left < LIMPET_COUNT_OF(entries) ? (size_t)left : LIMPET_COUNT_OF(entries);
		ssize_t got = pread(pagemap, entries, count * sizeof(entries[0]),
				    (off_t)(at * sizeof(entries[0])));

		if (got < (ssize_t)sizeof(entries[0]))
			return got < 0 ? limpet_errno() : -ENODATA;
		count = (size_t)got / sizeof(entries[0]);
		for (size_t i = 0; i < count; i++)
			if (entries[i] & ENTRY_PRESENT) {
				pages++;
				of_files += (entries[i] & ENTRY_FILE) != 0;
			}
		at += count;
	}
	*ret_bytes = pages * PAGE;
	if (ret_file_bytes)
		*ret_file_bytes = of_files * PAGE;
	return 0;
}
