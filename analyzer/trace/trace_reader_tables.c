#include "analyzer/trace/trace_reader_tables.h"

#include <errno.h>
#include <string.h>

#include "common/array.h"
#include "common/mark_name.h"
#include "common/trace_block.h"

int limpet_trace_tables_init(struct limpet_trace_tables *tables)
{
	struct limpet_trace_target *target = &tables->target;

	*tables = (struct limpet_trace_tables){0};
	target->comm = target->command = target->executable = target->allocators = "";
	target->host = target->kernel = target->machine = target->boot_id = "";
	target->container = target->unfollowed = target->recorder = target->labels = "";
	target->unseen_rss_share = -1;
	tables->end.attach_stop_us = tables->end.detach_stop_us = -1;
	tables->end.because = "";
	tables->end.unfollowed = "";
	/* the dummies */
	tables->modules = calloc(1, sizeof(*tables->modules));
	tables->nodes = calloc(1, sizeof(*tables->nodes));
	tables->owners = calloc(1, sizeof(*tables->owners));
	if (!tables->modules || !tables->nodes || !tables->owners) {
		limpet_trace_tables_done(tables);
		return -ENOMEM;
	}
	tables->modules[0].path = "";
	tables->module_count = tables->module_capacity = 1;
	tables->node_count = tables->node_capacity = 1;
	tables->owner_count = tables->owner_capacity = 1;
	return 0;
}

static void module_done(struct limpet_trace_module *module)
{
	if (!module->number)
		return;
	/* const only for the callers */
	free((void *)(uintptr_t)module->path);
	free((void *)(uintptr_t)module->build_id);
}

void limpet_trace_tables_done(struct limpet_trace_tables *tables)
{
	for (size_t i = 0; i < tables->string_count; i++)
		free(tables->strings[i]);
	for (uint32_t i = 0; tables->modules && i < tables->module_count; i++)
		module_done(&tables->modules[i]);
	for (uint32_t i = 0; tables->owners && i < tables->owner_count; i++)
		free(tables->owners[i]);
	for (uint32_t i = 0; i < tables->thread_count; i++)
		free(tables->threads[i].name);
	for (size_t i = 0; i < tables->mark_count; i++)
		free(tables->marks[i].name);
	free(tables->target.account.rows);
	free(tables->end.account.rows);
	free(tables->target.objects.rows);
	free(tables->end.objects.rows);
	free(tables->end.leaks.sites);
	free(tables->marks);
	free(tables->threads);
	free(tables->owners);
	free(tables->modules);
	free(tables->nodes);
	*tables = (struct limpet_trace_tables){0};
}

/* ------------------------------------------------------------------ HEADER */

static int add_string(struct limpet_trace_tables *tables, struct limpet_cursor *section,
		      const char **ret)
{
	char *string;

	if (limpet_cursor_left(section) > LIMPET_TRACE_STRING_MAX_BYTES ||
	    tables->string_count == LIMPET_COUNT_OF(tables->strings))
		return -EBADMSG;
	string = strndup((const char *)section->at, limpet_cursor_left(section));
	if (!string)
		return -ENOMEM;
	tables->strings[tables->string_count++] = string;
	*ret = string;
	return 0;
}

static const char **string_of(struct limpet_trace_target *target, unsigned tag)
{
	switch (tag) {
	case LIMPET_HEADER_COMM:
		return &target->comm;
	case LIMPET_HEADER_COMMAND:
		return &target->command;
	case LIMPET_HEADER_EXECUTABLE:
		return &target->executable;
	case LIMPET_HEADER_ALLOCATORS:
		return &target->allocators;
	case LIMPET_HEADER_HOST:
		return &target->host;
	case LIMPET_HEADER_KERNEL:
		return &target->kernel;
	case LIMPET_HEADER_MACHINE:
		return &target->machine;
	case LIMPET_HEADER_BOOT_ID:
		return &target->boot_id;
	case LIMPET_HEADER_CONTAINER:
		return &target->container;
	case LIMPET_HEADER_UNFOLLOWED:
		return &target->unfollowed;
	case LIMPET_HEADER_RECORDER:
		return &target->recorder;
	case LIMPET_HEADER_LABELS:
		return &target->labels;
	default:
		return NULL;
	}
}

static void read_text(struct limpet_cursor *list, char *ret, size_t room)
{
	const uint64_t bytes = limpet_cursor_limited(list, room - 1);
	const uint8_t *text = limpet_cursor_bytes(list, bytes);

	if (!list->failed)
		memcpy(ret, text, bytes); /* the rest is 0 */
}

/* 0, -EBADMSG or -ENOMEM. */
static int read_account(struct limpet_cursor *list, struct limpet_resident_account *ret)
{
	struct limpet_resident_account account = {.known = true};

	account.rss_bytes = limpet_cursor_varint(list);
	account.trimmed_bytes = limpet_cursor_varint(list);
	account.count = limpet_cursor_limited(list, LIMPET_RESIDENT_ROWS_MAX);
	if (list->failed || ret->known)
		return -EBADMSG;
	account.rows = calloc(account.count + 1, sizeof(*account.rows));
	if (!account.rows)
		return -ENOMEM;
	for (size_t i = 0; i < account.count; i++) {
		struct limpet_resident_row *row = &account.rows[i];
		uint64_t free_bytes;

		read_text(list, row->kind, sizeof(row->kind));
		read_text(list, row->owner, sizeof(row->owner));
		row->bytes = limpet_cursor_varint(list);
		row->count = limpet_cursor_varint(list);
		free_bytes = limpet_cursor_varint(list);
		row->free_known = free_bytes;
		row->free_bytes = free_bytes ? free_bytes - 1 : 0;
	}
	if (list->failed) {
		free(account.rows);
		return -EBADMSG;
	}
	*ret = account;
	return 0;
}

/* 0, -EBADMSG or -ENOMEM. */
static int read_objects(struct limpet_cursor *list, struct limpet_object_counts *ret)
{
	struct limpet_object_counts objects = {.known = true};

	objects.count = limpet_cursor_limited(list, LIMPET_OBJECT_ROWS_MAX);
	if (list->failed || ret->known)
		return -EBADMSG;
	objects.rows = calloc(objects.count + 1, sizeof(*objects.rows));
	if (!objects.rows)
		return -ENOMEM;
	for (size_t i = 0; i < objects.count; i++) {
		struct limpet_object_row *row = &objects.rows[i];

		row->kind = (enum limpet_object_kind)limpet_cursor_limited(list,
									   LIMPET_OBJECT_KINDS - 1);
		read_text(list, row->name, sizeof(row->name));
		read_text(list, row->script, sizeof(row->script));
		row->line = (uint32_t)limpet_cursor_limited(list, UINT32_MAX);
		row->count = limpet_cursor_varint(list);
		row->bytes = limpet_cursor_varint(list);
		row->outside_bytes = limpet_cursor_varint(list);
	}
	if (list->failed) {
		free(objects.rows);
		return -EBADMSG;
	}
	*ret = objects;
	return 0;
}

static void read_amounts(struct limpet_cursor *list, struct limpet_leak_amounts *amounts)
{
	for (unsigned i = 0; i < LIMPET_LEAK_STATES; i++) {
		amounts->of[i].blocks = limpet_cursor_varint(list);
		amounts->of[i].bytes = limpet_cursor_varint(list);
	}
}

/* 0, -EBADMSG or -ENOMEM. */
static int read_leaks(struct limpet_cursor *list, struct limpet_leak_counts *ret)
{
	struct limpet_leak_counts leaks = {.known = true};
	uint64_t node = 0;

	leaks.is_certain = limpet_cursor_limited(list, 1);
	leaks.unjudged = limpet_cursor_varint(list);
	leaks.stop_ns = limpet_cursor_varint(list);
	read_amounts(list, &leaks.amounts);
	leaks.count = limpet_cursor_limited(list, LIMPET_LEAK_SITES_MAX);
	if (list->failed || ret->known)
		return -EBADMSG;
	leaks.sites = calloc(leaks.count + 1, sizeof(*leaks.sites));
	if (!leaks.sites)
		return -ENOMEM;
	for (size_t i = 0; i < leaks.count; i++) {
		struct limpet_leak_site_counts *site = &leaks.sites[i];

		node += limpet_cursor_limited(list, UINT32_MAX - node);
		site->node = (uint32_t)node;
		read_amounts(list, &site->amounts);
		read_text(list, site->holder, sizeof(site->holder));
		site->held_bytes = limpet_cursor_varint(list);
	}
	if (list->failed) {
		free(leaks.sites);
		return -EBADMSG;
	}
	*ret = leaks;
	return 0;
}

static void parse_header_number(struct limpet_trace_target *target, unsigned tag,
				struct limpet_cursor *section)
{
	switch (tag) {
	case LIMPET_HEADER_PID:
		target->pid = (uint32_t)limpet_cursor_limited(section, INT32_MAX);
		break;
	case LIMPET_HEADER_MODE:
		target->mode =
			(enum limpet_capture_mode)limpet_cursor_limited(section, LIMPET_MODE_RUN);
		break;
	case LIMPET_HEADER_START_TICKS:
		target->start_ticks = limpet_cursor_varint(section);
		break;
	case LIMPET_HEADER_WALL_NS:
		target->wall_ns = limpet_cursor_varint(section);
		break;
	case LIMPET_HEADER_SAMPLE_BYTES:
		target->sample_bytes = limpet_cursor_varint(section);
		break;
	case LIMPET_HEADER_OVERLOAD_BYTES:
		target->overload_bytes = limpet_cursor_varint(section);
		break;
	case LIMPET_HEADER_MAX_DEPTH:
		target->max_depth = (uint32_t)limpet_cursor_limited(section, UINT32_MAX);
		break;
	case LIMPET_HEADER_UNSEEN_RSS_PPM:
		target->unseen_rss_share = (double)limpet_cursor_limited(section, 1000000) / 1e6;
		break;
	case LIMPET_HEADER_PAGES:
		target->pages = limpet_cursor_varint(section) == 1;
		break;
	case LIMPET_HEADER_OTHERS:
		target->other_allocators = limpet_cursor_varint(section) == 1;
		break;
	case LIMPET_HEADER_COMPACT:
		target->compact = limpet_cursor_varint(section) == 1;
		break;
	case LIMPET_HEADER_MAX_BYTES:
		target->max_bytes = limpet_cursor_varint(section);
		break;
	case LIMPET_HEADER_PAGE_BYTES:
		target->page_bytes = limpet_cursor_varint(section);
		break;
	case LIMPET_HEADER_CPUS:
		target->cpus = (uint32_t)limpet_cursor_limited(section, UINT32_MAX);
		break;
	case LIMPET_HEADER_CGROUP_LIMIT_BYTES:
		target->cgroup_limit_bytes = limpet_cursor_varint(section);
		break;
	default:
		break;
	}
}

static int read_header(struct limpet_trace_tables *tables, struct limpet_cursor *sections)
{
	struct limpet_cursor section;
	unsigned tag;

	if (tables->target.known)
		return -EBADMSG;
	tables->target.known = true;
	while ((tag = limpet_trace_next_section(sections, &section))) {
		const char **string = string_of(&tables->target, tag);

		if (string) {
			int code = add_string(tables, &section, string);

			if (code < 0)
				return code;
		} else if (tag == LIMPET_HEADER_ACCOUNT) {
			int code = read_account(&section, &tables->target.account);

			if (code < 0)
				return code;
		} else if (tag == LIMPET_HEADER_OBJECTS) {
			int code = read_objects(&section, &tables->target.objects);

			if (code < 0)
				return code;
		} else {
			parse_header_number(&tables->target, tag, &section);
			if (section.failed)
				return -EBADMSG;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ MODULES */

static int read_module(struct limpet_trace_tables *tables, struct limpet_cursor *list)
{
	struct limpet_trace_module module = {0};
	const uint8_t *path, *build_id;
	uint64_t path_bytes, flags;
	char *own_path;
	uint8_t *own_id;
	int code;

	module.number = (uint32_t)limpet_cursor_limited(list, LIMPET_TRACE_MODULES_MAX - 1);
	flags = limpet_cursor_varint(list);
	module.allocator = flags & LIMPET_MODULE_ALLOCATOR;
	module.start = limpet_cursor_varint(list);
	module.end = module.start + limpet_cursor_varint(list);
	module.bias = limpet_cursor_varint(list);
	path_bytes = limpet_cursor_limited(list, LIMPET_TRACE_STRING_MAX_BYTES);
	path = limpet_cursor_bytes(list, path_bytes);
	module.build_id_bytes =
		(uint32_t)limpet_cursor_limited(list, LIMPET_TRACE_STRING_MAX_BYTES);
	build_id = limpet_cursor_bytes(list, module.build_id_bytes);
	if (list->failed || !module.number)
		return -EBADMSG;
	if (module.number < tables->module_count && tables->modules[module.number].number)
		return -EBADMSG;
	code = limpet_reserve_zeroed(&tables->modules, &tables->module_capacity, module.number + 1,
				     sizeof(*tables->modules));
	if (code < 0)
		return code;
	own_path = strndup((const char *)path, path_bytes);
	own_id = malloc(module.build_id_bytes + 1ul);
	if (!own_path || !own_id) {
		free(own_path);
		free(own_id);
		return -ENOMEM;
	}
	memcpy(own_id, build_id, module.build_id_bytes);
	module.path = own_path;
	module.build_id = own_id;
	for (; tables->module_count <= module.number; tables->module_count++)
		tables->modules[tables->module_count].path = "";
	tables->modules[module.number] = module;
	return 0;
}

static int read_identity(struct limpet_trace_tables *tables, struct limpet_cursor *list)
{
	const uint32_t number = (uint32_t)limpet_cursor_limited(list, LIMPET_TRACE_MODULES_MAX - 1);
	const uint64_t bytes = limpet_cursor_limited(list, limpet_cursor_left(list));
	struct limpet_cursor rest = limpet_cursor_of(limpet_cursor_bytes(list, bytes), bytes);
	struct limpet_file_identity identity = {.has_status = false};

	identity.bytes = limpet_cursor_varint(&rest);
	identity.changed_ns = limpet_cursor_varint(&rest);
	identity.has_status = identity.bytes;
	identity.has_checksum = limpet_cursor_left(&rest);
	if (identity.has_checksum)
		identity.checksum = (uint32_t)limpet_cursor_limited(&rest, UINT32_MAX);
	if (list->failed || rest.failed)
		return -EBADMSG;
	/* Else the block with the module is lost. */
	if (number < tables->module_count && tables->modules[number].number)
		tables->modules[number].identity = identity;
	return 0;
}

typedef int read_fn(struct limpet_trace_tables *tables, struct limpet_cursor *list);

static int read_each(struct limpet_trace_tables *tables, struct limpet_cursor *list, uint64_t most,
		     read_fn *read)
{
	const uint64_t count = limpet_cursor_limited(list, most);
	int code = list->failed ? -EBADMSG : 0;

	for (uint64_t i = 0; i < count && code == 0; i++)
		code = read(tables, list);
	return code;
}

/* Of a block whose section 1 is a list. */
static int read_only_list(struct limpet_trace_tables *tables, struct limpet_cursor *sections,
			  uint64_t most, read_fn *read)
{
	struct limpet_cursor list;
	unsigned tag;
	int code = 0;

	while (code == 0 && (tag = limpet_trace_next_section(sections, &list)))
		if (tag == LIMPET_THREADS_LIST)
			code = read_each(tables, &list, most, read);
	return code;
}

static int read_modules(struct limpet_trace_tables *tables, struct limpet_cursor *sections)
{
	struct limpet_cursor list, files = limpet_cursor_of(NULL, 0);
	bool has_files = false;
	unsigned tag;
	int code = 0;

	while ((tag = limpet_trace_next_section(sections, &list)) && code == 0) {
		if (tag == LIMPET_MODULES_LIST)
			code = read_each(tables, &list, LIMPET_TRACE_MODULES_MAX, read_module);
		if (tag == LIMPET_MODULES_FILES) {
			has_files = true;
			files = list;
		}
	}
	/* The modules may be listed after it. */
	return code == 0 && has_files
		       ? read_each(tables, &files, LIMPET_TRACE_MODULES_MAX, read_identity)
		       : code;
}

/* ------------------------------------------------------------------ NODES */

static int read_node(struct limpet_trace_tables *tables, struct limpet_cursor *list,
		     uint64_t *address)
{
	struct limpet_trace_node *node;
	uint32_t number = tables->node_count;
	uint64_t step, up, module, flags;
	int code;

	up = limpet_cursor_limited(list, number);
	module = limpet_cursor_limited(list, LIMPET_TRACE_MODULES_MAX);
	step = limpet_cursor_varint(list);
	flags = limpet_cursor_varint(list);
	/* a parent is an earlier node, so there are no cycles */
	if (list->failed || up == 0)
		return -EBADMSG;
	code = limpet_reserve_zeroed(&tables->nodes, &tables->node_capacity, number + 1,
				     sizeof(*tables->nodes));
	if (code < 0)
		return code;
	*address += limpet_trace_unzigzag(step);
	node = &tables->nodes[number];
	if (flags & LIMPET_TRACE_NODE_OWNER && *address && *address < LIMPET_TRACE_OWNERS_MAX) {
		/* Its parent's stack; without a parent it is unknown. */
		*node = tables->nodes[number - (uint32_t)up];
		node->lost = node->lost || up == number;
		node->owner = (uint16_t)*address;
		tables->node_count++;
		return 0;
	}
	node->address = *address;
	node->parent = number - (uint32_t)up;
	node->module = (uint32_t)module;
	node->truncated = flags & LIMPET_TRACE_NODE_TRUNCATED;
	node->made = !module && flags & LIMPET_TRACE_NODE_MADE;
	tables->node_count++;
	return 0;
}

static int read_node_list(struct limpet_trace_tables *tables, struct limpet_cursor *list)
{
	uint64_t first = limpet_cursor_limited(list, LIMPET_TRACE_NODES_MAX);
	uint64_t count = limpet_cursor_limited(list, LIMPET_TRACE_NODES_MAX - first);
	uint64_t address = 0;
	int code;

	if (list->failed || first < tables->node_count || count > limpet_cursor_left(list))
		return -EBADMSG;
	code = limpet_reserve_zeroed(&tables->nodes, &tables->node_capacity,
				     (uint32_t)(first + count), sizeof(*tables->nodes));
	if (code < 0)
		return code;
	for (; tables->node_count < first; tables->node_count++)
		tables->nodes[tables->node_count].lost = true;
	for (uint64_t i = 0; i < count; i++) {
		code = read_node(tables, list, &address);
		if (code < 0)
			return code;
	}
	return 0;
}

static int read_owners(struct limpet_trace_tables *tables, struct limpet_cursor *list)
{
	while (limpet_cursor_left(list)) {
		uint64_t number = limpet_cursor_limited(list, LIMPET_TRACE_OWNERS_MAX - 1);
		uint64_t bytes = limpet_cursor_limited(list, LIMPET_TRACE_STRING_MAX_BYTES);
		const uint8_t *name = limpet_cursor_bytes(list, bytes);
		int code;

		if (list->failed || !number)
			return -EBADMSG;
		code = limpet_reserve_zeroed(&tables->owners, &tables->owner_capacity,
					     (uint32_t)number + 1, sizeof(*tables->owners));
		if (code < 0)
			return code;
		while (tables->owner_count <= number)
			tables->owners[tables->owner_count++] = NULL;
		free(tables->owners[number]);
		tables->owners[number] = strndup((const char *)name, bytes);
		if (!tables->owners[number])
			return -ENOMEM;
	}
	return 0;
}

static int read_nodes(struct limpet_trace_tables *tables, struct limpet_cursor *sections)
{
	struct limpet_cursor list;
	unsigned tag;

	while ((tag = limpet_trace_next_section(sections, &list))) {
		int code = tag == LIMPET_NODES_LIST     ? read_node_list(tables, &list)
			   : tag == LIMPET_NODES_OWNERS ? read_owners(tables, &list)
							: 0;

		if (code < 0)
			return code;
	}
	return 0;
}

/* ------------------------------------------------------------------ END */

static void parse_ending(struct limpet_trace_end *end, unsigned tag, uint64_t value)
{
	switch (tag) {
	case LIMPET_ENDING_REASON:
		end->end = (enum limpet_end)value;
		break;
	case LIMPET_ENDING_TIME_NS:
		end->time_ns = value;
		break;
	case LIMPET_ENDING_AGENT_UNLOADED:
		end->agent_unloaded = value == 1;
		break;
	case LIMPET_ENDING_ATTACH_STOP_US:
		end->attach_stop_us = (int64_t)(value & INT64_MAX);
		break;
	case LIMPET_ENDING_DETACH_STOP_US:
		end->detach_stop_us = (int64_t)(value & INT64_MAX);
		break;
	case LIMPET_ENDING_AGENT_MEMORY_BYTES:
		end->agent_memory_bytes = value;
		break;
	case LIMPET_ENDING_LOSSES:
		end->losses = limpet_losses_known(value);
		break;
	case LIMPET_ENDING_AGENT_RESIDENT_BYTES:
		end->agent_resident_bytes = value;
		break;
	default:
		break;
	}
}

static int read_end(struct limpet_trace_tables *tables, struct limpet_cursor *sections)
{
	struct limpet_trace_end *end = &tables->end, read = *end;
	struct limpet_cursor section;
	unsigned tag;

	if (end->known)
		return -EBADMSG;
	read.end = LIMPET_END_UNKNOWN; /* until its reason is read */
	while ((tag = limpet_trace_next_section(sections, &section))) {
		uint64_t value;
		int code = 0;

		if (tag == LIMPET_ENDING_BECAUSE || tag == LIMPET_ENDING_UNFOLLOWED) {
			code = add_string(tables, &section,
					  tag == LIMPET_ENDING_BECAUSE ? &read.because
								       : &read.unfollowed);
			if (code < 0)
				return code;
			continue;
		}
		if (tag == LIMPET_ENDING_ACCOUNT) {
			code = read_account(&section, &end->account);
			if (code < 0)
				return code;
			read.account = end->account;
			continue;
		}
		if (tag == LIMPET_ENDING_OBJECTS) {
			code = read_objects(&section, &end->objects);
			if (code < 0)
				return code;
			read.objects = end->objects;
			continue;
		}
		if (tag == LIMPET_ENDING_LEAKS) {
			code = read_leaks(&section, &end->leaks);
			if (code < 0)
				return code;
			read.leaks = end->leaks;
			continue;
		}
		value = limpet_cursor_varint(&section);
		if (tag == LIMPET_ENDING_PEAK) {
			read.has_peak = true;
			read.peak_min = value;
			read.peak_max = limpet_cursor_varint(&section);
		}
		if (section.failed ||
		    (tag == LIMPET_ENDING_REASON &&
		     (value == LIMPET_END_RUNNING || value >= LIMPET_END_COLLECTOR_LOST)))
			return -EBADMSG;
		parse_ending(&read, tag, value);
	}
	if (sections->failed)
		return -EBADMSG;
	read.known = true;
	*end = read;
	return 0;
}

/* ------------------------------------------------------------------ THREADS */

static int read_thread(struct limpet_trace_tables *tables, struct limpet_cursor *list)
{
	const uint64_t tid = limpet_cursor_limited(list, UINT32_MAX);
	const uint64_t bytes = limpet_cursor_limited(list, LIMPET_TRACE_STRING_MAX_BYTES);
	const uint8_t *name = limpet_cursor_bytes(list, bytes);
	char *own;

	if (list->failed || tables->thread_count == LIMPET_TRACE_THREADS_MAX)
		return -EBADMSG;
	if (limpet_reserve(&tables->threads, &tables->thread_capacity, tables->thread_count + 1,
			   sizeof(*tables->threads)) < 0)
		return -ENOMEM;
	own = strndup((const char *)name, bytes);
	if (!own)
		return -ENOMEM;
	tables->threads[tables->thread_count++] =
		(struct limpet_trace_thread_name){.tid = (uint32_t)tid, .name = own};
	return 0;
}

static int by_tid(const void *a, const void *b)
{
	const struct limpet_trace_thread_name *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Of each thread the last name stays. */
static void settle_threads(struct limpet_trace_tables *tables)
{
	struct limpet_trace_thread_name *list = tables->threads;
	uint32_t kept = 0;

	if (tables->thread_count < 2)
		return;
	for (uint32_t i = 0; i < tables->thread_count; i++)
		list[i].order = i + 1;
	qsort(list, tables->thread_count, sizeof(*list), by_tid);
	for (uint32_t i = 0; i < tables->thread_count; i++) {
		if (i + 1 < tables->thread_count && list[i + 1].tid == list[i].tid)
			free(list[i].name);
		else
			list[kept++] = list[i];
	}
	tables->thread_count = kept;
}

const char *limpet_trace_tables_thread(const struct limpet_trace_tables *tables, uint32_t tid)
{
	const uint32_t at = (uint32_t)LIMPET_PARTITION_POINT(i, tables->thread_count,
							     tables->threads[i].tid < tid);

	return at < tables->thread_count && tables->threads[at].tid == tid
		       ? tables->threads[at].name
		       : "";
}

/* ------------------------------------------------------------------ MARKS */

static int read_mark(struct limpet_trace_tables *tables, struct limpet_cursor *list)
{
	const uint64_t time_ns = limpet_cursor_varint(list);
	const uint64_t bytes = limpet_cursor_limited(list, LIMPET_MARK_NAME_MAX_BYTES);
	const uint8_t *name = limpet_cursor_bytes(list, bytes);
	char *own;

	if (list->failed || !bytes || !name[0] || tables->mark_count == LIMPET_MARKS_MAX)
		return -EBADMSG;
	if (limpet_reserve(&tables->marks, &tables->mark_capacity, tables->mark_count + 1,
			   sizeof(*tables->marks)) < 0)
		return -ENOMEM;
	own = strndup((const char *)name, bytes);
	if (!own)
		return -ENOMEM;
	tables->marks[tables->mark_count++] =
		(struct limpet_trace_user_mark){.name = own, .time_ns = time_ns};
	return 0;
}

/* Few, and most often in order already. */
static void settle_marks(struct limpet_trace_tables *tables)
{
	struct limpet_trace_user_mark *list = tables->marks;

	for (size_t i = 1; i < tables->mark_count; i++)
		for (size_t at = i; at && list[at].time_ns < list[at - 1].time_ns; at--) {
			const struct limpet_trace_user_mark earlier = list[at];

			list[at] = list[at - 1];
			list[at - 1] = earlier;
		}
}

int limpet_trace_tables_read(struct limpet_trace_tables *tables, unsigned type,
			     struct limpet_cursor sections)
{
	int code;

	switch (type) {
	case LIMPET_TRACE_HEADER:
		code = read_header(tables, &sections);
		break;
	case LIMPET_TRACE_MODULES:
		code = read_modules(tables, &sections);
		break;
	case LIMPET_TRACE_NODES:
		code = read_nodes(tables, &sections);
		break;
	case LIMPET_TRACE_THREADS:
		code = read_only_list(tables, &sections, LIMPET_TRACE_THREADS_MAX, read_thread);
		break;
	case LIMPET_TRACE_MARKS:
		code = read_only_list(tables, &sections, LIMPET_MARKS_MAX, read_mark);
		break;
	case LIMPET_TRACE_END:
		code = read_end(tables, &sections);
		break;
	default:
		return 0;
	}
	return code == 0 && sections.failed ? -EBADMSG : code;
}

void limpet_trace_tables_settle(struct limpet_trace_tables *tables)
{
	for (uint32_t i = 0; i < tables->node_count; i++)
		if (tables->nodes[i].module >= tables->module_count)
			tables->nodes[i].module = 0;
	settle_threads(tables);
	settle_marks(tables);
}
