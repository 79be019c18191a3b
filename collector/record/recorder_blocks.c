#include "collector/record/recorder_blocks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/trace_block.h"

static void append_boot_id(struct limpet_bytes *content)
{
	LIMPET_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char id[64];
	ssize_t count = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);

	if (count <= 0)
		return;
	id[count] = '\0';
	id[strcspn(id, "\n")] = '\0';
	limpet_trace_string_append(content, LIMPET_HEADER_BOOT_ID, id);
}

static void append_text(struct limpet_bytes *list, const char *text)
{
	const size_t bytes = strlen(text);

	limpet_bytes_append_varint(list, bytes);
	limpet_bytes_append(list, text, bytes);
}

static void append_account(struct limpet_bytes *content, unsigned tag,
			   const struct limpet_resident_account *account)
{
	struct limpet_bytes list = {0};

	if (!account || !account->known)
		return;
	limpet_bytes_append_varint(&list, account->rss_bytes);
	limpet_bytes_append_varint(&list, account->trimmed_bytes);
	limpet_bytes_append_varint(&list, account->count);
	for (size_t i = 0; i < account->count; i++) {
		const struct limpet_resident_row *row = &account->rows[i];

		append_text(&list, row->kind);
		append_text(&list, row->owner);
		limpet_bytes_append_varint(&list, row->bytes);
		limpet_bytes_append_varint(&list, row->count);
		limpet_bytes_append_varint(&list, row->free_known ? row->free_bytes + 1 : 0);
	}
	limpet_trace_list_append(content, tag, &list);
}

static void append_objects(struct limpet_bytes *content, unsigned tag,
			   const struct limpet_object_counts *objects)
{
	struct limpet_bytes list = {0};

	if (!objects || !objects->known)
		return;
	limpet_bytes_append_varint(&list, objects->count);
	for (size_t i = 0; i < objects->count; i++) {
		const struct limpet_object_row *row = &objects->rows[i];

		limpet_bytes_append_varint(&list, row->kind);
		append_text(&list, row->name);
		append_text(&list, row->script);
		limpet_bytes_append_varint(&list, row->line);
		limpet_bytes_append_varint(&list, row->count);
		limpet_bytes_append_varint(&list, row->bytes);
		limpet_bytes_append_varint(&list, row->outside_bytes);
	}
	limpet_trace_list_append(content, tag, &list);
}

static void append_amounts(struct limpet_bytes *list, const struct limpet_leak_amounts *amounts)
{
	for (unsigned i = 0; i < LIMPET_LEAK_STATES; i++) {
		limpet_bytes_append_varint(list, amounts->of[i].blocks);
		limpet_bytes_append_varint(list, amounts->of[i].bytes);
	}
}

static void append_leaks(struct limpet_bytes *content, const struct limpet_leak_counts *leaks)
{
	struct limpet_bytes list = {0};
	uint32_t node = 0;

	if (!leaks || !leaks->known)
		return;
	limpet_bytes_append_varint(&list, leaks->is_certain);
	limpet_bytes_append_varint(&list, leaks->unjudged);
	limpet_bytes_append_varint(&list, leaks->stop_ns);
	append_amounts(&list, &leaks->amounts);
	limpet_bytes_append_varint(&list, leaks->count);
	for (size_t i = 0; i < leaks->count; i++) {
		const struct limpet_leak_site_counts *site = &leaks->sites[i];

		limpet_bytes_append_varint(&list, site->node - node);
		node = site->node;
		append_amounts(&list, &site->amounts);
		append_text(&list, site->holder);
		limpet_bytes_append_varint(&list, site->held_bytes);
	}
	limpet_trace_list_append(content, LIMPET_ENDING_LEAKS, &list);
}

void limpet_recorder_append_header(struct limpet_bytes *content,
				   const struct limpet_recorder_options *options)
{
	struct utsname host;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), page_bytes = sysconf(_SC_PAGESIZE);

	limpet_trace_number_append(content, LIMPET_HEADER_PID, (uint64_t)options->pid);
	limpet_trace_string_append(content, LIMPET_HEADER_COMM, options->comm);
	limpet_trace_string_append(content, LIMPET_HEADER_COMMAND, options->command);
	limpet_trace_string_append(content, LIMPET_HEADER_EXECUTABLE, options->executable);
	limpet_trace_number_append(content, LIMPET_HEADER_MODE, options->mode);
	limpet_trace_number_append(content, LIMPET_HEADER_START_TICKS, options->start_ticks);
	limpet_trace_number_append(content, LIMPET_HEADER_WALL_NS, options->wall_ns);
	limpet_trace_number_append(content, LIMPET_HEADER_SAMPLE_BYTES, options->sampling.bytes);
	limpet_trace_number_append(content, LIMPET_HEADER_OVERLOAD_BYTES,
				   options->sampling.overload_bytes);
	limpet_trace_number_append(content, LIMPET_HEADER_MAX_DEPTH, options->max_depth);
	if (options->unseen_rss_share >= 0) {
		double share = options->unseen_rss_share > 1 ? 1 : options->unseen_rss_share;

		limpet_trace_number_append(content, LIMPET_HEADER_UNSEEN_RSS_PPM,
					   (uint64_t)(share * 1e6 + 0.5));
	}
	limpet_trace_string_append(content, LIMPET_HEADER_ALLOCATORS, options->allocators);
	if (uname(&host) == 0) {
		limpet_trace_string_append(content, LIMPET_HEADER_HOST, host.nodename);
		limpet_trace_string_append(content, LIMPET_HEADER_KERNEL, host.release);
		limpet_trace_string_append(content, LIMPET_HEADER_MACHINE, host.machine);
	}
	append_boot_id(content);
	append_account(content, LIMPET_HEADER_ACCOUNT, options->account);
	append_objects(content, LIMPET_HEADER_OBJECTS, options->objects);
	if (options->unfollowed && options->unfollowed[0])
		limpet_trace_string_append(content, LIMPET_HEADER_UNFOLLOWED, options->unfollowed);
	if (options->labels && options->labels[0])
		limpet_trace_string_append(content, LIMPET_HEADER_LABELS, options->labels);
	if (options->compact)
		limpet_trace_number_append(content, LIMPET_HEADER_COMPACT, 1);
	if (options->pages)
		limpet_trace_number_append(content, LIMPET_HEADER_PAGES, 1);
	if (options->other_allocators)
		limpet_trace_number_append(content, LIMPET_HEADER_OTHERS, 1);
	if (options->max_bytes)
		limpet_trace_number_append(content, LIMPET_HEADER_MAX_BYTES, options->max_bytes);
	if (page_bytes > 0)
		limpet_trace_number_append(content, LIMPET_HEADER_PAGE_BYTES, (uint64_t)page_bytes);
	if (cpus > 0)
		limpet_trace_number_append(content, LIMPET_HEADER_CPUS, (uint64_t)cpus);
	limpet_trace_string_append(content, LIMPET_HEADER_CONTAINER, options->container);
	if (options->cgroup_limit_bytes)
		limpet_trace_number_append(content, LIMPET_HEADER_CGROUP_LIMIT_BYTES,
					   options->cgroup_limit_bytes);
}

void limpet_recorder_append_module(struct limpet_bytes *list, uint32_t number,
				   const struct limpet_recorder_module *module)
{
	size_t path_bytes = module->path ? strlen(module->path) : 0;

	limpet_bytes_append_varint(list, number);
	limpet_bytes_append_varint(list, module->allocator ? LIMPET_MODULE_ALLOCATOR : 0);
	limpet_bytes_append_varint(list, module->start);
	limpet_bytes_append_varint(list, module->end - module->start);
	limpet_bytes_append_varint(list, module->bias);
	limpet_bytes_append_varint(list, path_bytes);
	limpet_bytes_append(list, module->path, path_bytes);
	limpet_bytes_append_varint(list, module->build_id_bytes);
	limpet_bytes_append(list, module->build_id, module->build_id_bytes);
}

void limpet_recorder_append_identity(struct limpet_bytes *list, uint32_t module,
				     const struct limpet_file_identity *identity)
{
	struct limpet_bytes rest = {0};

	limpet_bytes_append_varint(&rest, identity->bytes);
	limpet_bytes_append_varint(&rest, identity->changed_ns);
	if (identity->has_checksum)
		limpet_bytes_append_varint(&rest, identity->checksum);
	limpet_bytes_append_varint(list, module);
	limpet_bytes_append_varint(list, rest.count);
	limpet_bytes_append(list, rest.data, rest.count);
	list->failed |= rest.failed;
	limpet_bytes_done(&rest);
}

/* ------------------------------------------------------------------ PERIOD */

static void append_sizes(struct limpet_bytes *content, const struct limpet_size_counts *sizes)
{
	struct limpet_bytes list = {0};

	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		if (!sizes[i].allocations)
			continue;
		limpet_bytes_append_varint(&list, i);
		limpet_bytes_append_varint(&list, sizes[i].allocations);
		limpet_bytes_append_varint(&list, sizes[i].allocated_bytes);
	}
	limpet_trace_list_append(content, LIMPET_PERIOD_SIZES, &list);
}

static bool is_heap_site(const struct limpet_site_count *site)
{
	return site->counts.allocations || site->counts.frees;
}

static bool is_realloc_site(const struct limpet_site_count *site)
{
	return site->counts.reallocations;
}

static bool is_map_site(const struct limpet_site_count *site)
{
	return site->maps.mmaps || site->maps.unmapped_parts;
}

#define COLUMN(member) offsetof(struct limpet_site_count, member)
static const size_t heap_columns[] = {
	COLUMN(counts.allocations),     COLUMN(counts.allocated_bytes), COLUMN(counts.frees),
	COLUMN(counts.freed_bytes),     COLUMN(counts.temporary),       COLUMN(counts.untracked),
	COLUMN(counts.untracked_bytes),
};
static const size_t realloc_columns[] = {COLUMN(counts.reallocations)};
static const size_t map_columns[] = {
	COLUMN(maps.mmaps),
	COLUMN(maps.mmap_bytes),
	COLUMN(maps.unmapped_parts),
	COLUMN(maps.unmapped_bytes),
};

static uint64_t member_at(const struct limpet_site_count *site, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const uint8_t *)site + offset, sizeof(value));
	return value;
}

/* Count, nodes, and one column per figure; the sites are sorted. */
static void append_sites(struct limpet_bytes *content, unsigned tag,
			 const struct limpet_site_counts *sites,
			 bool (*is_listed)(const struct limpet_site_count *), const size_t *columns,
			 size_t column_count)
{
	struct limpet_bytes list = {0};
	size_t listed = 0;
	uint32_t node = 0;

	for (size_t i = 0; i < sites->count; i++)
		listed += is_listed(&sites->list[i]);
	if (!listed)
		return;
	limpet_bytes_append_varint(&list, listed);
	for (size_t i = 0; i < sites->count; i++) {
		if (!is_listed(&sites->list[i]))
			continue;
		limpet_bytes_append_varint(&list, sites->list[i].node - node);
		node = sites->list[i].node;
	}
	for (size_t column = 0; column < column_count; column++)
		for (size_t i = 0; i < sites->count; i++)
			if (is_listed(&sites->list[i]))
				limpet_bytes_append_varint(
					&list, member_at(&sites->list[i], columns[column]));
	limpet_trace_list_append(content, tag, &list);
}

static void append_overloads(struct limpet_bytes *content,
			     const struct limpet_accounting *accounting)
{
	const struct limpet_accounting_overload *overloads;
	size_t count = limpet_accounting_period_overloads(accounting, &overloads);
	struct limpet_bytes list = {0};

	if (!count)
		return;
	for (size_t i = 0; i < count; i++) {
		limpet_bytes_append_varint(&list, overloads[i].from_ns);
		limpet_bytes_append_varint(&list, overloads[i].to_ns - overloads[i].from_ns);
	}
	limpet_trace_list_append(content, LIMPET_PERIOD_OVERLOADS, &list);
}

static void append_held(struct limpet_bytes *content, const struct limpet_accounting *accounting)
{
	struct limpet_bytes nodes = {0}, blocks = {0}, bytes = {0}, list = {0};
	struct limpet_accounting_held held;
	uint32_t node = 0, last = 0;
	size_t count = 0;

	for (; limpet_accounting_next_held(accounting, &node, &held); count++) {
		limpet_bytes_append_varint(&nodes, held.node - last);
		last = held.node;
		limpet_bytes_append_varint(&blocks, held.blocks);
		limpet_bytes_append_varint(&bytes, held.bytes);
	}
	limpet_bytes_append_varint(&list, count);
	limpet_bytes_append(&list, nodes.data, nodes.count);
	limpet_bytes_append(&list, blocks.data, blocks.count);
	limpet_bytes_append(&list, bytes.data, bytes.count);
	list.failed |= nodes.failed || blocks.failed || bytes.failed;
	limpet_bytes_done(&nodes);
	limpet_bytes_done(&blocks);
	limpet_bytes_done(&bytes);
	limpet_trace_list_append(content, LIMPET_PERIOD_HELD, &list);
}

void limpet_recorder_append_timeline(struct limpet_bytes *content,
				     const struct limpet_recorder_point *points, size_t count)
{
	struct limpet_bytes list = {0};
	uint64_t time_ns = 0;

	for (size_t i = 0; i < count; i++) {
		limpet_bytes_append_varint(&list, points[i].time_ns - time_ns);
		time_ns = points[i].time_ns;
		limpet_bytes_append_varint(&list, points[i].live_bytes);
		limpet_bytes_append_varint(&list, points[i].rss_bytes);
		limpet_bytes_append_varint(&list, points[i].cgroup_bytes);
		limpet_bytes_append_varint(&list, points[i].mapped_bytes);
		limpet_bytes_append_varint(&list, points[i].allocations);
	}
	limpet_trace_list_append(content, LIMPET_PERIOD_TIMELINE, &list);
}

static void append_losses(struct limpet_bytes *content, const struct limpet_recorder_losses *losses)
{
	const struct limpet_dropped *dropped = &losses->dropped;
	const uint64_t numbers[] = {
		losses->dropped_events, losses->truncated_stacks, losses->unseen_calls,
		dropped->allocations,   dropped->allocated_bytes, dropped->frees,
		dropped->freed_bytes,   dropped->unsized_frees,   dropped->mmaps,
		dropped->mmap_bytes,    dropped->munmaps,         dropped->munmap_bytes,
		losses->inferred_frees, losses->inferred_bytes,
	};

	limpet_trace_numbers_append(content, LIMPET_PERIOD_LOSSES, numbers,
				    LIMPET_COUNT_OF(numbers));
	if (losses->reasons)
		limpet_trace_numbers_append(content, LIMPET_PERIOD_REASONS, &losses->reasons, 1);
}

void limpet_recorder_append_period(struct limpet_bytes *content,
				   struct limpet_accounting *accounting,
				   const struct limpet_recorder_period *period)
{
	const struct limpet_recorder_gauges *gauges = period->gauges;
	const uint64_t numbers[] = {gauges->time_ns, gauges->rss_bytes,   gauges->cgroup_bytes,
				    gauges->threads, gauges->agent_bytes, gauges->file_bytes};
	struct limpet_rollup *sums = period->sums;
	const struct limpet_accounting_peak *peak = &sums->peak;
	uint64_t totals[LIMPET_TOTAL_COUNT];

	limpet_totals_list(limpet_accounting_totals(accounting), totals);
	limpet_site_counts_sort(&sums->sites);
	limpet_trace_numbers_append(content, LIMPET_PERIOD_EVENTS,
				    (uint64_t[]){period->events_sequence, period->rows}, 2);
	limpet_trace_numbers_append(content, LIMPET_PERIOD_TOTALS, totals, LIMPET_TOTAL_COUNT);
	limpet_trace_numbers_append(content, LIMPET_PERIOD_GAUGES, numbers,
				    LIMPET_COUNT_OF(numbers));
	append_losses(content, period->losses);
	limpet_trace_numbers_append(content, LIMPET_PERIOD_PEAK,
				    (uint64_t[]){peak->bytes, period->rows ? peak->rows : 0,
						 peak->time_ns, peak->capture_bytes,
						 peak->capture_ns},
				    5);
	append_sizes(content, sums->sizes);
	append_sites(content, LIMPET_PERIOD_SITES, &sums->sites, is_heap_site, heap_columns,
		     LIMPET_COUNT_OF(heap_columns));
	append_sites(content, LIMPET_PERIOD_REALLOCS, &sums->sites, is_realloc_site,
		     realloc_columns, LIMPET_COUNT_OF(realloc_columns));
	append_sites(content, LIMPET_PERIOD_MAPS, &sums->sites, is_map_site, map_columns,
		     LIMPET_COUNT_OF(map_columns));
	append_overloads(content, accounting);
	if (period->held)
		append_held(content, accounting);
}

/* ------------------------------------------------------------------ LIVE, RESIDENT, END */

void limpet_recorder_append_live(struct limpet_bytes *content, unsigned kind,
				 const struct limpet_recorder_live *list, size_t count)
{
	struct limpet_bytes columns[6] = {0};
	uint64_t address = 0;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		limpet_bytes_append_varint(&columns[0], list[i].address - address);
		address = list[i].address;
		limpet_bytes_append_varint(&columns[1], list[i].size);
		limpet_bytes_append_varint(&columns[2], list[i].node);
		limpet_bytes_append_varint(&columns[3], list[i].tick);
		limpet_bytes_append_varint(&columns[4], list[i].tid);
		limpet_bytes_append_varint(&columns[5], list[i].sampled);
		any |= list[i].sampled;
	}
	if (!any)
		limpet_bytes_clear(&columns[5]);
	limpet_trace_numbers_append(content, LIMPET_LIVE_COUNTS, (uint64_t[]){count, kind}, 2);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(columns); i++)
		limpet_trace_list_append(content, LIMPET_LIVE_ADDRESSES + i, &columns[i]);
}

void limpet_recorder_append_resident(struct limpet_bytes *content,
				     const struct limpet_recorder_resident *resident, size_t first,
				     size_t count, uint64_t from, uint64_t to)
{
	const uint64_t page = resident->page_bytes;
	struct limpet_bytes runs = {0};
	uint64_t last = from;

	for (size_t i = first; i < first + count; i++) {
		const struct limpet_recorder_run *run = &resident->runs[i];

		limpet_bytes_append_varint(&runs, (run->start - last) / page);
		limpet_bytes_append_varint(&runs, (run->end - run->start) / page);
		last = run->end;
	}
	limpet_trace_numbers_append(content, LIMPET_RESIDENT_COUNTS,
				    (uint64_t[]){count, page, from / page, to / page}, 4);
	limpet_trace_list_append(content, LIMPET_RESIDENT_RUNS, &runs);
}

void limpet_recorder_append_end(struct limpet_bytes *content, const struct limpet_recorder_end *end,
				int64_t live_entries)
{
	limpet_trace_number_append(content, LIMPET_ENDING_REASON, end->end);
	limpet_trace_number_append(content, LIMPET_ENDING_TIME_NS, end->time_ns);
	limpet_trace_number_append(content, LIMPET_ENDING_COMPLETE,
				   limpet_losses_complete(end->losses));
	limpet_trace_number_append(content, LIMPET_ENDING_AGENT_UNLOADED, end->agent_unloaded);
	if (end->attach_stop_us >= 0)
		limpet_trace_number_append(content, LIMPET_ENDING_ATTACH_STOP_US,
					   (uint64_t)end->attach_stop_us);
	if (end->detach_stop_us >= 0)
		limpet_trace_number_append(content, LIMPET_ENDING_DETACH_STOP_US,
					   (uint64_t)end->detach_stop_us);
	limpet_trace_number_append(content, LIMPET_ENDING_AGENT_MEMORY_BYTES,
				   end->agent_memory_bytes);
	if (end->agent_resident_bytes)
		limpet_trace_number_append(content, LIMPET_ENDING_AGENT_RESIDENT_BYTES,
					   end->agent_resident_bytes);
	if (end->because && end->because[0])
		limpet_trace_string_append(content, LIMPET_ENDING_BECAUSE, end->because);
	limpet_trace_number_append(content, LIMPET_ENDING_LOSSES, end->losses);
	if (end->unfollowed && end->unfollowed[0])
		limpet_trace_string_append(content, LIMPET_ENDING_UNFOLLOWED, end->unfollowed);
	append_account(content, LIMPET_ENDING_ACCOUNT, end->account);
	append_objects(content, LIMPET_ENDING_OBJECTS, end->objects);
	append_leaks(content, end->leaks);
	if (live_entries >= 0)
		limpet_trace_number_append(content, LIMPET_ENDING_LIVE_ENTRIES,
					   (uint64_t)live_entries);
}

void limpet_recorder_append_peak_bounds(struct limpet_bytes *content,
					struct limpet_accounting *accounting)
{
	uint64_t bounds[2];

	if (limpet_accounting_peak_bounds(accounting, &bounds[0], &bounds[1]))
		limpet_trace_numbers_append(content, LIMPET_ENDING_PEAK, bounds, 2);
}
