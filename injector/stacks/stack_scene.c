#include "injector/stacks/stack_scene.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "injector/elf/modules_memory.h"
#include "injector/unwind/unwind_compile.h"

/* Reserved, and touched as far as tables need it. */
#define TABLES_BYTES (UINT64_C(1) << 30)
/* More than the largest programs have of .eh_frame. */
#define COPIED_MOST (64u << 20)

/* .eh_frame_hdr, as the linkers write it (Linux Standard Base, "Exception Frames"). */
struct search_header {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
};

/* ------------------------------------------------------------------ which modules */

static void note_word(const struct limpet_modules *modules, uint64_t word, bool *used)
{
	const struct limpet_module *module = limpet_modules_find(modules, word);

	if (module)
		used[module - modules->list] = true;
}

static void note_used(const struct limpet_modules *modules, const struct limpet_stack_copy *copy,
		      bool *used)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(copy->registers); i++)
		note_word(modules, copy->registers[i], used);
	for (size_t at = 0; at + sizeof(uint64_t) <= copy->bytes; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, copy->stack + at, sizeof(word));
		note_word(modules, word, used);
	}
}

/* ------------------------------------------------------------------ limpet's tables */

/* The set takes a list of modules: one of those that are used, which afterwards has what was read
 * of them. */
static int make_tables(struct limpet_modules *modules, const bool *used,
		       struct limpet_unwind_set *set)
{
	struct limpet_modules some = *modules;
	size_t taken = 0;
	int made;

	some.list = calloc(modules->count + 1, sizeof(*some.list));
	if (!some.list)
		return -ENOMEM;
	for (size_t i = 0; i < modules->count; i++)
		if (used[i])
			some.list[taken++] = modules->list[i];
	some.count = taken;
	made = limpet_unwind_set_update(set, &some);
	if (made >= 0)
		made = limpet_unwind_set_read_frames(set, &some, true);
	while (taken) {
		taken--;
		*(struct limpet_module *)(uintptr_t)limpet_modules_find(
			modules, some.list[taken].start) = some.list[taken];
	}
	free(some.list);
	return made < 0 ? made : 0;
}

/* ------------------------------------------------------------------ libunwind's */

/* The one form that there is of a table with addresses relative to the header. */
static bool has_table(const struct search_header *header)
{
	return header->version == 1 && header->count_encoding == DW_EH_PE_udata4 &&
	       header->table_encoding == (DW_EH_PE_datarel | DW_EH_PE_sdata4) &&
	       (header->frame_encoding & 0xf) == DW_EH_PE_sdata4 && header->count;
}

/* Up to the end of the mapping, since .eh_frame's size is told nowhere. */
static size_t bytes_to_copy(const struct limpet_modules *modules,
			    const struct limpet_module *module, uint64_t address)
{
	const struct limpet_map *map = limpet_proc_maps_find(&modules->maps, address);
	const uint64_t end = map && map->end < module->end ? map->end : module->end;

	return end - address < COPIED_MOST ? (size_t)(end - address) : COPIED_MOST;
}

static void read_module(const struct limpet_modules *modules, const struct limpet_module *module,
			struct limpet_stack_module *ret)
{
	struct search_header header;
	uint64_t frame;
	ssize_t got;
	size_t bytes;

	*ret = (struct limpet_stack_module){.start = module->start, .end = module->end};
	if (!module->eh_frame_hdr ||
	    limpet_module_read(modules->target, module, module->eh_frame_hdr, &header,
			       sizeof(header)) < 0 ||
	    !has_table(&header) ||
	    limpet_unwind_find_eh_frame((const uint8_t *)&header, sizeof(header),
					module->eh_frame_hdr, &frame) < 0 ||
	    frame < module->start || frame >= module->end)
		return;
	ret->address = frame < module->eh_frame_hdr ? frame : module->eh_frame_hdr;
	bytes = bytes_to_copy(modules, module, ret->address);
	ret->data = limpet_module_spend(module, bytes) ? malloc(bytes) : NULL;
	if (!ret->data)
		return;
	got = limpet_module_read_some(modules->target, module, ret->address, ret->data, bytes);
	if (got <= 0)
		return;
	ret->bytes = (size_t)got;
	ret->header = module->eh_frame_hdr;
	ret->table = module->eh_frame_hdr + sizeof(header);
	ret->entries = header.count;
}

/* ------------------------------------------------------------------ both */

static int read_used(struct limpet_modules *modules, const bool *used,
		     struct limpet_stack_sources *sources)
{
	int error;

	sources->modules = calloc(modules->count + 1, sizeof(*sources->modules));
	sources->set.arena = mmap(NULL, TABLES_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sources->set.arena == MAP_FAILED)
		sources->set.arena = NULL;
	if (!sources->modules || !sources->set.arena)
		return -ENOMEM;
	error = make_tables(modules, used, &sources->set);
	if (error)
		return error;
	for (size_t i = 0; i < modules->count; i++)
		if (used[i])
			read_module(modules, &modules->list[i],
				    &sources->modules[sources->scene.module_count++]);
	sources->scene.modules = sources->modules;
	limpet_unwind_set_walk_map(&sources->set, &sources->scene.map);
	return 0;
}

int limpet_stack_sources_read(struct limpet_modules *modules,
			      const struct limpet_stack_copy *copies, size_t count,
			      struct limpet_stack_sources *ret)
{
	LIMPET_FREE bool *used = calloc(modules->count + 1, sizeof(*used));
	struct limpet_stack_sources sources = {
		.set = {.arena_bytes = TABLES_BYTES, .arena_used = LIMPET_UNWIND_ALIGN}};
	int error;

	if (!used)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (copies[i].stack)
			note_used(modules, &copies[i], used);
	error = read_used(modules, used, &sources);
	if (error)
		limpet_stack_sources_done(&sources);
	else
		*ret = sources;
	return error;
}

void limpet_stack_sources_done(struct limpet_stack_sources *sources)
{
	for (size_t i = 0; i < sources->scene.module_count; i++)
		free(sources->modules[i].data);
	free(sources->modules);
	if (sources->set.arena)
		munmap(sources->set.arena, TABLES_BYTES);
	limpet_unwind_set_done(&sources->set);
}
