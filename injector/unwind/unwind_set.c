#include "injector/unwind/unwind_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/base_name.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/modules_memory.h"
#include "injector/proc/target_process.h"
#include "injector/unwind/module_frames.h"
#include "injector/unwind/unwind_compile.h"
#include "injector/unwind/unwind_fill.h"

#define MAX_EH_FRAME (256u << 20)
/* The header, up to its table. */
#define EH_FRAME_HDR_BYTES 32u
/* After this many failures a module stays without a table: otherwise each refresh would try again.
 */
#define ENOUGH_FAILURES 4u
#define MAX_CODE (8u << 20)

/* Finds .eh_frame. Its address is in .eh_frame_hdr, its size is nowhere: it is taken to extend to
 * the end of the module's readable bytes, and the compiler stops at the terminator. */
static int find_by_header(const struct limpet_target *target, const struct limpet_module *module,
			  uint64_t *ret_address, uint64_t *ret_bytes)
{
	uint8_t header[EH_FRAME_HDR_BYTES];
	uint64_t bytes = module->eh_frame_hdr_bytes;
	int error;

	if (bytes > sizeof(header))
		bytes = sizeof(header);
	error = limpet_module_read(target, module, module->eh_frame_hdr, header, bytes);
	if (!error)
		error = limpet_unwind_find_eh_frame(header, bytes, module->eh_frame_hdr,
						    ret_address);
	*ret_bytes = module->end - *ret_address;
	return error;
}

static bool note_exit(void *context, const struct limpet_elf_function *function)
{
	if (!strcmp(function->name, "exit"))
		*(uint64_t *)context = function->value;
	return true;
}

/* A program without that header (linked with -static, or by musl-gcc) still has the section, but
 * only its file tells where. */
static int find_by_file(const struct limpet_target *target, const struct limpet_module *module,
			uint64_t *ret_address, uint64_t *ret_bytes, uint64_t *ret_exit)
{
	LIMPET_CLOSE int fd = limpet_module_open(target, module);
	struct limpet_elf_file *file;
	uint64_t address, exit_value = 0;
	bool found;
	int error = fd < 0 ? -ENOENT : limpet_elf_file_open(fd, &file);

	if (error)
		return error;
	found = limpet_elf_file_is_native(file) &&
		limpet_elf_file_loaded_section(file, ".eh_frame", &address, ret_bytes);
	if (found && !module->has_interpreter)
		limpet_elf_file_functions(file, note_exit, &exit_value);
	limpet_elf_file_free(file);
	if (!found)
		return -ENOENT;
	*ret_address = module->bias + address;
	*ret_exit = exit_value ? module->bias + exit_value : 0;
	return 0;
}

static int compile_module(const struct limpet_target *target, const struct limpet_module *module,
			  size_t max_bytes, void **ret_table, size_t *ret_bytes,
			  struct limpet_unwind_stats *ret_stats)
{
	LIMPET_FREE uint8_t *section = NULL;
	LIMPET_FREE uint8_t *code = NULL;
	struct limpet_unwind_input input = {
		.start = module->start, .end = module->end, .max_table_bytes = max_bytes};
	uint64_t address = 0, bytes = 0;
	ssize_t got;
	int error;

	if (module->eh_frame_hdr) {
		error = find_by_header(target, module, &address, &bytes);
	} else {
		error = find_by_file(target, module, &address, &bytes, &input.exit_address);
		input.eh_frame_whole = true;
	}
	if (module->libc_loader)
		input.exit_address = limpet_module_symbol(
			target, (struct limpet_module *)(uintptr_t)module, "exit", NULL);
	if (error == -ENOENT)
		address = module->start; /* it has no such section */
	else if (error)
		return error;
	if (address < module->start || address >= module->end)
		return -EBADMSG;
	if (bytes > module->end - address)
		bytes = module->end - address;
	if (bytes > MAX_EH_FRAME)
		bytes = MAX_EH_FRAME;
	if (!limpet_module_spend(module, bytes))
		return -EFBIG;
	section = malloc(bytes + 1);
	if (!section)
		return -ENOMEM;
	got = limpet_module_read_some(target, module, address, section, bytes);
	if (got < 0)
		return (int)got;
	input.eh_frame = section;
	input.eh_frame_bytes = (size_t)got;
	input.eh_frame_address = address;
	input.data_base = module->eh_frame_hdr;
	/* To find a signal restorer without a description: only in small modules that may contain
	 * libc. */
	if (module->text_end - module->text_start <= MAX_CODE &&
	    limpet_module_spend(module, module->text_end - module->text_start)) {
		bytes = module->text_end - module->text_start;
		code = malloc(bytes);
		if (code &&
		    limpet_module_read(target, module, module->text_start, code, bytes) == 0) {
			input.code = code;
			input.code_bytes = bytes;
			input.code_address = module->text_start;
		}
	}
	return limpet_unwind_compile(&input, ret_table, ret_bytes, ret_stats);
}

static uint64_t arena_add(struct limpet_unwind_set *set, const void *table, size_t bytes)
{
	uint64_t offset = set->arena_used;

	if (bytes > set->arena_bytes - offset)
		return 0;
	memcpy(set->arena + offset, table, bytes);
	set->arena_used = (offset + bytes + LIMPET_UNWIND_ALIGN - 1) / LIMPET_UNWIND_ALIGN *
			  LIMPET_UNWIND_ALIGN;
	return offset;
}

/* The module to which a table belongs: a table's offsets count from the module's start. */
struct limpet_unwind_set_table {
	uint64_t table, table_bytes; /* 0: none could be made */
	unsigned failures;           /* number of failed attempts */
	bool lacks_frames;           /* its code is still to be read */
	bool without_room;
	uint64_t span, inode;
	uint64_t start; /* 0: at any address */
	uint32_t dev_major, dev_minor;
	uint32_t build_id_bytes;
	uint8_t build_id[LIMPET_BUILD_ID_MAX];
};

static struct limpet_unwind_set_table identify(const struct limpet_module *module)
{
	struct limpet_unwind_set_table of = {.span = module->end - module->start,
					     .inode = module->inode,
					     .dev_major = module->dev_major,
					     .dev_minor = module->dev_minor,
					     .build_id_bytes = module->build_id_bytes};

	if (!module->inode && !module->build_id_bytes)
		of.start = module->start;
	memcpy(of.build_id, module->build_id, module->build_id_bytes);
	return of;
}

static struct limpet_unwind_set_table *find_table(const struct limpet_unwind_set *set,
						  const struct limpet_unwind_set_table *of)
{
	for (uint32_t i = 0; i < set->list_count; i++) {
		struct limpet_unwind_set_table *known = &set->list[i];

		if (known->span == of->span && known->inode == of->inode &&
		    known->start == of->start && known->dev_major == of->dev_major &&
		    known->dev_minor == of->dev_minor &&
		    known->build_id_bytes == of->build_id_bytes &&
		    memcmp(known->build_id, of->build_id, of->build_id_bytes) == 0)
			return known;
	}
	return NULL;
}

static bool reserve_table(struct limpet_unwind_set *set)
{
	return limpet_reserve(&set->list, &set->list_capacity, set->list_count + 1,
			      sizeof(*set->list)) == 0;
}

/* Notes a failure: perhaps the module was not completely loaded. */
static void note_failure(struct limpet_unwind_set *set, const struct limpet_module *module,
			 const struct limpet_unwind_set_table *of, int error)
{
	struct limpet_unwind_set_table *known = find_table(set, of);

	if (!known && reserve_table(set)) {
		known = &set->list[set->list_count++];
		*known = *of;
	}
	if (!known)
		return;
	known->failures++;
	if (error != -ENOSPC || known->without_room)
		return;
	known->without_room = true;
	if (!set->without_room.count++)
		snprintf(set->without_room.first, sizeof(set->without_room.first), "%s",
			 limpet_base_name(module->path));
}

/* Tables that were just made, until it is known to which module they belong. Asking takes longer
 * the more mappings there are, so limpet asks for several tables at a time. */
#define BATCH 32u
struct batch {
	const struct limpet_module *modules[BATCH];
	struct limpet_unwind_set_table of[BATCH];
	void *tables[BATCH];
	size_t bytes[BATCH];
	struct limpet_unwind_module *entries[BATCH];
	size_t count;
};

static void make_table(struct limpet_unwind_set *set, const struct limpet_target *target,
		       const struct limpet_module *module, const struct limpet_unwind_set_table *of,
		       struct limpet_unwind_module *entry, struct batch *batch)
{
	const size_t at = batch->count;
	struct limpet_unwind_stats stats = {0};
	int error = -ENOSPC;

	if (set->arena_used < set->arena_bytes)
		error = compile_module(target, module, set->arena_bytes - set->arena_used,
				       &batch->tables[at], &batch->bytes[at], &stats);
	if (error) {
		note_failure(set, module, of, error);
		return;
	}
	batch->modules[at] = module;
	batch->of[at] = *of;
	batch->of[at].lacks_frames =
		limpet_module_lacks_frames(module, stats.described_bytes + stats.unknown_bytes);
	batch->entries[at] = entry;
	batch->count++;
}

/* Whether the module was at its address during the whole time in which its table was made:
 * otherwise its successor may have been read instead. */
static bool is_still_there(const struct limpet_maps *maps, const struct limpet_module *module)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, module->map_start);

	return map && limpet_module_is_of(module, map);
}

/* Returns whether it is a new table, and not that of a module that was mapped twice. */
static bool keep_table(struct limpet_unwind_set *set, const struct limpet_module *module,
		       struct limpet_unwind_set_table *of, const void *table, size_t bytes)
{
	struct limpet_unwind_set_table *known = find_table(set, of);

	if (known && known->table) {
		*of = *known;
		return false;
	}
	if (!known && !reserve_table(set))
		return false;
	of->table = arena_add(set, table, bytes);
	if (!of->table) {
		note_failure(set, module, of, -ENOSPC);
		return false;
	}
	of->table_bytes = bytes;
	*(known ? known : &set->list[set->list_count++]) = *of;
	return true;
}

/* Returns the number of tables that were made. */
static int keep_tables(struct limpet_unwind_set *set, const struct limpet_target *target,
		       struct batch *batch)
{
	struct limpet_maps maps = {0};
	int made = 0;

	if (batch->count && limpet_proc_maps_read(target->pid, &maps) < 0)
		maps.count = 0;
	for (size_t i = 0; i < batch->count; i++) {
		struct limpet_unwind_set_table *of = &batch->of[i];

		if (is_still_there(&maps, batch->modules[i]))
			made += keep_table(set, batch->modules[i], of, batch->tables[i],
					   batch->bytes[i]);
		batch->entries[i]->table = of->table;
		batch->entries[i]->table_bytes = of->table_bytes;
		free(batch->tables[i]);
	}
	limpet_proc_maps_done(&maps);
	batch->count = 0;
	return made;
}

/* The next module whose code is to be read. */
static bool start_reading(struct limpet_unwind_set *set, struct limpet_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const struct limpet_unwind_set_table of = identify(module);
		struct limpet_unwind_set_table *known = find_table(set, &of);

		if (!known || !known->lacks_frames)
			continue;
		known->lacks_frames = false;
		if (limpet_module_frames_start(modules->target, module,
					       (const void *)(set->arena + known->table),
					       &set->reader) < 0)
			continue;
		set->reading = (uint32_t)(known - set->list) + 1;
		return true;
	}
	return false;
}

/* The new table takes the old one's place in the list; readers may still use the old one. */
static int use_rows(struct limpet_unwind_set *set, const struct limpet_frame_rows *rows)
{
	struct limpet_unwind_set_table *known = &set->list[set->reading - 1];
	const uint64_t old = known->table;
	LIMPET_FREE void *table = NULL;
	size_t bytes;
	uint64_t new;
	int error = limpet_unwind_fill((const void *)(set->arena + old), rows, &table, &bytes);

	if (error)
		return error;
	new = arena_add(set, table, bytes);
	if (!new)
		return 0;
	known->table = new;
	known->table_bytes = bytes;
	for (uint32_t i = 0; i < set->module_count; i++)
		if (set->modules[i].table == old) {
			set->modules[i].table = new;
			set->modules[i].table_bytes = bytes;
		}
	return 1;
}

int limpet_unwind_set_read_frames(struct limpet_unwind_set *set, struct limpet_modules *modules,
				  bool wait)
{
	int made = 0;

	while (set->reading || start_reading(set, modules)) {
		struct limpet_frame_rows rows = {0};
		int result = limpet_frame_reader_finish(&set->reader, wait, &rows);

		if (result == -EAGAIN)
			break;
		if (result == 0)
			result = use_rows(set, &rows);
		free(rows.list);
		set->reading = 0;
		if (result == -ENOMEM)
			return result;
		made += result > 0 ? result : 0;
	}
	return made;
}

bool limpet_unwind_set_has_frames(const struct limpet_unwind_set *set)
{
	return set->reading && limpet_frame_reader_is_done(&set->reader);
}

/* Of node, glibc, LLVM and rustc tables take 3.6 to 7.8 bytes for one of .eh_frame_hdr, which has
 * an entry for each function. */
#define TABLE_FOR_HEADER 8u
/* A described function is rarely larger in the mean; the frames of other code take a byte in ten.
 */
#define CODE_FOR_HEADER 64u
#define CODE_FOR_FRAMES 8u

uint64_t limpet_unwind_set_estimate(const struct limpet_modules *modules)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < modules->count; i++) {
		const struct limpet_module *module = &modules->list[i];

		const uint64_t text = module->text_end - module->text_start;

		if (module->eh_frame_hdr_bytes < module->end - module->start)
			bytes += module->eh_frame_hdr_bytes * TABLE_FOR_HEADER;
		if (module->eh_frame_hdr_bytes < text / CODE_FOR_HEADER)
			bytes += text / CODE_FOR_FRAMES;
	}
	return bytes;
}

int limpet_unwind_set_update(struct limpet_unwind_set *set, struct limpet_modules *modules)
{
	struct limpet_unwind_module *new = calloc(LIMPET_MAX_UNWIND_MODULES, sizeof(*new));
	struct batch batch = {.count = 0};
	uint32_t count = 0;
	int made = 0;

	if (!new)
		return -ENOMEM;
	for (size_t i = 0; i < modules->count && count < LIMPET_MAX_UNWIND_MODULES; i++) {
		const struct limpet_module *module = &modules->list[i];
		struct limpet_unwind_module entry = {
			.start = module->start, .end = module->end, .live = 1};
		const struct limpet_unwind_set_table of = identify(module);
		const struct limpet_unwind_set_table *known = find_table(set, &of);

		if (known && (known->table || known->failures >= ENOUGH_FAILURES)) {
			entry.table = known->table;
			entry.table_bytes = known->table_bytes;
		} else {
			make_table(set, modules->target, module, &of, &new[count], &batch);
		}
		new[count++] = entry;
		if (batch.count == BATCH)
			made += keep_tables(set, modules->target, &batch);
	}
	made += keep_tables(set, modules->target, &batch);
	free(set->modules);
	set->modules = new;
	set->module_count = count;
	set->generation++;
	return made;
}

void limpet_unwind_set_walk_map(const struct limpet_unwind_set *set, struct limpet_walk_map *ret)
{
	ret->modules = set->modules;
	ret->arena = set->arena;
	ret->sorted = ret->count = set->module_count;
	ret->generation = set->generation;
	ret->gone = NULL;
	ret->gone_places = ret->gone_then = ret->gone_now = 0;
}

void limpet_unwind_set_done(struct limpet_unwind_set *set)
{
	if (set->reading)
		limpet_frame_reader_stop(&set->reader);
	free(set->modules);
	free(set->list);
	memset(set, 0, sizeof(*set));
}
