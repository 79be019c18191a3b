#include "injector/elf/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/arch.h"
#include "common/array.h"
#include "common/family.h"
#include "common/mounts.h"
#include "common/open_file.h"
#include "common/wire.h"
#include "injector/elf/modules_memory.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
#define MAX_PHDRS 256u
#define MAX_DYNAMIC_BYTES 65536u
#define MAX_TABLE_BYTES (512u << 20)
#define MAX_NOTE_BYTES 65536u
#define MAX_LINK_MAPS 16384u
#define MAX_SPACES 64u /* glibc has 16 */
#define MAX_SYMBOLS (1u << 24)
#define MAX_MODULES 4096u
#define MAX_HEADERS 4u     /* mappings of a file's first page: a small file's data are there, too */
#define MAX_NEIGHBOURS 64u /* mappings of one module */
#define MAX_IN_VAIN 256u   /* modules that are in a list and nowhere else: it lies */
/* Limit of the tables of all modules together: a hundred times what a large program has. */
#define BUDGET_BYTES (2ull << 30)

bool limpet_module_spend(const struct limpet_module *module, uint64_t bytes)
{
	if (!module->budget)
		return true;
	if (bytes > *module->budget)
		return false;
	*module->budget -= bytes;
	return true;
}

/* The head of an image, in the process's memory or in its file. */
struct head {
	const struct limpet_target *target;
	const struct limpet_module *module;
	const struct limpet_map *maps, *maps_end; /* from the module's first one on */
	int file;                                 /* -1: in memory */
};

/* What limpet maps of an agent is not mapped as readable. */
static bool is_readable(const struct limpet_map *map)
{
	return map->perms[0] == 'r' || (map->perms[1] == 'w' && limpet_memfd_is_agent(map->path));
}

/* Where these bytes of the file are mapped; 0: nowhere. Program headers are usually in the first
 * mapping, but a tool that rewrites programs, such as BOLT, may put new ones behind all others.
 * What is found there may be another copy's, if the file is mapped more than once. */
static uint64_t find_mapped(const struct head *head, uint64_t at, uint64_t bytes)
{
	for (const struct limpet_map *map = head->maps; map < head->maps_end; map++) {
		const bool first = map == head->maps;
		const uint64_t before = first ? head->module->start - map->start : 0;
		const uint64_t skipped = at - map->offset + before, mapped = map->end - map->start;

		if (!first && (!map->inode || !limpet_map_is_same_file(map, head->maps)))
			continue;
		if (is_readable(map) && skipped <= mapped && bytes <= mapped - skipped)
			return map->start + skipped;
	}
	return 0;
}

/* *ret_address: where they are mapped. */
static int read_head(const struct head *head, uint64_t at, void *ret, size_t bytes,
		     uint64_t *ret_address)
{
	*ret_address = find_mapped(head, at, bytes);
	if (!*ret_address)
		return -EFAULT;
	if (head->file < 0)
		return limpet_module_read(head->target, head->module, *ret_address, ret, bytes);
	return pread(head->file, ret, bytes, (off_t)at) == (ssize_t)bytes ? 0 : -EIO;
}

static void read_build_id(const struct limpet_target *target, uint64_t address, uint64_t bytes,
			  struct limpet_module *module)
{
	LIMPET_FREE uint8_t *notes = NULL;
	uint64_t at = 0;

	if (module->build_id_bytes || bytes > MAX_NOTE_BYTES || !limpet_module_spend(module, bytes))
		return;
	notes = malloc(bytes);
	if (!notes || limpet_module_read(target, module, address, notes, bytes) < 0)
		return;
	while (at + sizeof(Elf64_Nhdr) <= bytes) {
		Elf64_Nhdr head;
		uint64_t name, data;

		memcpy(&head, notes + at, sizeof(head));
		name = at + sizeof(head);
		data = name + ((uint64_t)head.n_namesz + 3) / 4 * 4;
		if (data + head.n_descsz > bytes)
			return;
		if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && head.n_descsz <= LIMPET_BUILD_ID_MAX) {
			memcpy(module->build_id, notes + data, head.n_descsz);
			module->build_id_bytes = head.n_descsz;
			return;
		}
		at = data + ((uint64_t)head.n_descsz + 3) / 4 * 4;
	}
}

static void read_segment(const struct head *head, const Elf64_Phdr *phdr,
			 struct limpet_module *module)
{
	uint64_t start = module->bias + phdr->p_vaddr;

	switch (phdr->p_type) {
	case PT_LOAD:
		if (start + phdr->p_memsz > module->end)
			module->end = start + phdr->p_memsz;
		if (phdr->p_offset < PAGE && start > module->last_head)
			module->last_head = start;
		if (!(phdr->p_flags & PF_X))
			break;
		if (!module->text_end || start < module->text_start) {
			module->text_start = start;
			module->text_offset = phdr->p_offset;
		}
		if (start + phdr->p_memsz > module->text_end)
			module->text_end = start + phdr->p_memsz;
		break;
	case PT_DYNAMIC:
		module->dynamic = start;
		module->dynamic_bytes = phdr->p_memsz;
		break;
	case PT_GNU_EH_FRAME:
		module->eh_frame_hdr = start;
		module->eh_frame_hdr_bytes = phdr->p_memsz;
		break;
	case PT_GNU_RELRO:
		module->relro_start = start;
		module->relro_end = start + phdr->p_memsz;
		break;
	case PT_INTERP:
		module->has_interpreter = true;
		break;
	case PT_NOTE:
		if (head->file < 0)
			read_build_id(head->target, start, phdr->p_memsz, module);
		break;
	default:
		break;
	}
}

/* Indices of the mappings of code in files: few, where thousands of files of data are mapped.
 * malloc'ed. */
static size_t *list_code(const struct limpet_maps *maps, size_t *ret_count)
{
	size_t *list = calloc(maps->count + 1, sizeof(*list));

	*ret_count = 0;
	for (size_t i = 0; list && i < maps->count; i++)
		if (maps->list[i].perms[2] == 'x' && maps->list[i].inode)
			list[(*ret_count)++] = i;
	return list;
}

/* Whether the mapping may be a module's first one: only a file's first page has its header. To look
 * into a file of data may wait for a file system. */
static bool may_be_module(const struct limpet_maps *maps, const struct limpet_map *map,
			  const size_t *code, size_t count, bool moved)
{
	if (!is_readable(map) || map->offset)
		return false;
	if (!map->inode)
		return !strcmp(map->path, "[vdso]");
	/* The text that follows may have been moved to memory without a file. */
	if (moved && map + 1 < maps->list + maps->count && map[1].start == map->end &&
	    map[1].perms[2] == 'x')
		return true;
	for (size_t i = 0; i < count; i++)
		if (limpet_map_is_same_file(&maps->list[code[i]], map))
			return true;
	return false;
}

static bool is_image(const Elf64_Ehdr *head)
{
	return !memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_ident[EI_CLASS] == ELFCLASS64 &&
	       head->e_machine == LIMPET_ARCH_ELF_MACHINE &&
	       (head->e_type == ET_EXEC || head->e_type == ET_DYN) &&
	       head->e_phentsize == sizeof(Elf64_Phdr) && head->e_phnum &&
	       head->e_phnum <= MAX_PHDRS;
}

/* Whether the segment that has the program headers would be mapped so that they are at `address`.
 */
static bool are_heads_at(const struct limpet_module *module, const Elf64_Phdr *phdrs,
			 const Elf64_Ehdr *elf, uint64_t address)
{
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		const uint64_t skipped = elf->e_phoff - phdrs[i].p_offset;

		if (phdrs[i].p_type == PT_LOAD && elf->e_phoff >= phdrs[i].p_offset &&
		    skipped < phdrs[i].p_filesz)
			return module->bias + phdrs[i].p_vaddr + skipped == address;
	}
	return false;
}

/* 0, 1 (not a module), or -ENOMEM. */
static int read_segments(const struct head *head, struct limpet_module *module)
{
	LIMPET_FREE Elf64_Phdr *phdrs = NULL;
	Elf64_Ehdr elf;
	uint64_t address;
	bool first_load = true;

	if (read_head(head, 0, &elf, sizeof(elf), &address) < 0 || !is_image(&elf))
		return 1;
	phdrs = calloc(elf.e_phnum, sizeof(*phdrs));
	if (!phdrs)
		return -ENOMEM;
	if (read_head(head, elf.e_phoff, phdrs, elf.e_phnum * sizeof(*phdrs), &address) < 0)
		return 1;
	module->phdr = address;
	for (unsigned i = 0; i < elf.e_phnum; i++) {
		/* The first PT_LOAD maps the header, which is at the start of the file; the page
		 * holds its p_vaddr. */
		if (phdrs[i].p_type != PT_LOAD || !first_load)
			continue;
		module->bias = module->start - (phdrs[i].p_vaddr & ~4095ull) +
			       (phdrs[i].p_offset & ~4095ull);
		first_load = false;
	}
	if (first_load ||
	    (address >= head->maps->end && !are_heads_at(module, phdrs, &elf, address)))
		return 1;
	for (unsigned i = 0; i < elf.e_phnum; i++)
		read_segment(head, &phdrs[i], module);
	return 0;
}

static int set_file(const struct limpet_map *map, struct limpet_module *module)
{
	module->path = strdup(map->path);
	module->map_start = map->start;
	module->map_end = map->end;
	module->dev_major = map->dev_major;
	module->dev_minor = map->dev_minor;
	module->inode = map->inode;
	module->vdso = !strcmp(map->path, "[vdso]");
	module->agent = limpet_memfd_is_agent(map->path);
	return module->path ? 0 : -ENOMEM;
}

/* Reads the image whose ELF header is at `start`, in this mapping, or its file. 0, 1 (not a
 * module), or -errno. The module's path is to be freed in any case. */
static int read_module(const struct limpet_modules *modules, size_t i, uint64_t start, bool by_file,
		       struct limpet_module *module)
{
	const struct limpet_map *map = &modules->maps.list[i];
	const struct limpet_map *maps_end = modules->maps.list + modules->maps.count;
	LIMPET_CLOSE int file = -1;
	int code;

	module->budget = modules->budget;
	module->memory = modules->memory;
	module->start = start;
	module->end = map->end;
	if ((map->inode || !strcmp(map->path, "[vdso]")) && set_file(map, module) < 0)
		return -ENOMEM;
	if (by_file) {
		file = limpet_module_open(modules->target, module);
		if (file < 0)
			return 1;
	}
	code = read_segments(&(struct head){.target = modules->target,
					    .module = module,
					    .maps = map,
					    .maps_end = maps_end,
					    .file = file},
			     module);
	if (code)
		return code;
	/* The header was moved, too: the data are still the file's. */
	while (!module->path && ++map < maps_end && map->start < module->end)
		if (map->inode && set_file(map, module) < 0)
			return -ENOMEM;
	if (!module->path)
		return 1;
	/* No code, or a size that overflows. */
	return module->end < module->start || module->end - module->start > 1ull << 40 ||
	       module->text_end <= module->text_start;
}

/* A data mapping of an ELF file (by a profiler or a package tool) is not a module, nor is a second
 * mapping of the page with its header, which a linker may have put beside the code: its code must
 * be mapped executable where its program headers say. Text that was moved to huge pages is not the
 * file's any more (`moved`). */
static bool has_code(const struct limpet_modules *modules, const struct limpet_module *module,
		     bool moved)
{
	const struct limpet_map *map = limpet_proc_maps_find(&modules->maps, module->text_start);

	if (!map || map->perms[2] != 'x')
		return false;
	if (module->vdso || !limpet_module_is_of(module, map))
		return module->vdso || moved;
	return map->offset + (module->text_start - map->start) == module->text_offset;
}

bool limpet_module_is_of(const struct limpet_module *module, const struct limpet_map *map)
{
	return module->inode == map->inode && module->dev_major == map->dev_major &&
	       module->dev_minor == map->dev_minor;
}

static struct limpet_module *module_at(struct limpet_modules *modules, uint64_t address)
{
	for (size_t i = 0; i < modules->count; i++)
		if (address >= modules->list[i].start && address < modules->list[i].end)
			return &modules->list[i];
	return NULL;
}

const struct limpet_module *limpet_modules_find(const struct limpet_modules *modules,
						uint64_t address)
{
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, modules->count, modules->list[i].start <= address);

	return above && address < modules->list[above - 1].end ? &modules->list[above - 1] : NULL;
}

static void insert(struct limpet_modules *modules, const struct limpet_module *module)
{
	size_t at = modules->count++;

	for (; at && modules->list[at - 1].start > module->start; at--)
		modules->list[at] = modules->list[at - 1];
	modules->list[at] = *module;
}

/* If the image whose ELF header is at `header` has this address, and this dynamic section unless
 * that is 0, it is a new module. */
static bool add_image(struct limpet_modules *modules, uint64_t header, uint64_t address,
		      uint64_t dynamic)
{
	const struct limpet_map *map = limpet_proc_maps_find(&modules->maps, header);
	struct limpet_module module = {.path = NULL};

	if (map && !module_at(modules, header) &&
	    read_module(modules, (size_t)(map - modules->maps.list), header, false, &module) == 0 &&
	    has_code(modules, &module, true) &&
	    address - module.start < module.end - module.start &&
	    (!dynamic || module.dynamic == dynamic)) {
		insert(modules, &module);
		return true;
	}
	free(module.path);
	return false;
}

/* The module that has this address by the loader or the kernel. Usually it is in the list. If not,
 * its text is not mapped from its file any more: programs move it to memory with huge pages (iodlr,
 * BOLT's hugify, HHVM, node). Then it is added, which moves others in the list: its ELF header is
 * at `header`, or where its file's first page is mapped. `dynamic` is where its dynamic section
 * must be, 0 if unknown. NULL: there is none. */
static struct limpet_module *module_that_has(struct limpet_modules *modules, uint64_t address,
					     uint64_t header, uint64_t dynamic)
{
	const struct limpet_map *map = limpet_proc_maps_find(&modules->maps, address);
	struct limpet_module *known = module_at(modules, address);
	unsigned tries = 0, maps = 0;
	bool added;

	if (known || !map || modules->count == modules->maps.count ||
	    modules->count == MAX_MODULES || modules->in_vain == MAX_IN_VAIN)
		return known;
	added = add_image(modules, header, address, dynamic);
	for (const struct limpet_map *at = map; !added && map->inode && tries < MAX_HEADERS; at--) {
		if (!at->offset && limpet_map_is_same_file(at, map)) {
			added = add_image(modules, at->start, address, dynamic);
			tries++;
		}
		if (at == modules->maps.list || ++maps == MAX_NEIGHBOURS)
			break;
	}
	modules->in_vain += !added;
	return module_at(modules, address);
}

static struct limpet_module *module_of_entry(struct limpet_modules *modules,
					     const struct link_map *entry)
{
	const uint64_t dynamic = (uint64_t)(uintptr_t)entry->l_ld;

	return module_that_has(modules, dynamic, entry->l_addr, dynamic);
}

static uint64_t dynamic_value(const struct limpet_target *target,
			      const struct limpet_module *module, int64_t tag)
{
	LIMPET_FREE Elf64_Dyn *dynamic = NULL;
	uint64_t bytes = module->dynamic_bytes;

	if (!module->dynamic || bytes > MAX_DYNAMIC_BYTES)
		return 0;
	dynamic = malloc(bytes + sizeof(*dynamic));
	if (!dynamic || limpet_module_read(target, module, module->dynamic, dynamic, bytes) < 0)
		return 0;
	for (uint64_t i = 0; i < bytes / sizeof(*dynamic) && dynamic[i].d_tag != DT_NULL; i++)
		if (dynamic[i].d_tag == tag)
			return dynamic[i].d_un.d_val;
	return 0;
}

typedef void link_map_fn(const struct link_map *entry, uint32_t space, void *context);

/* Whether the loader's lists change is of interest also in a program that may no longer be traced.
 */
static int read_list(const struct limpet_target *target, uint64_t at, void *ret, size_t bytes)
{
	int error = limpet_memory_read(target->pid, at, ret, bytes);

	return error == -EACCES || error == -EPERM ? limpet_target_read(target, at, ret, bytes)
						   : error;
}

/* Calls `visit` for each entry of one of the loader's lists; bounded, since the target may lie. */
static int walk_space(const struct limpet_target *target, uint64_t at, uint32_t space,
		      link_map_fn *visit, void *context)
{
	uint64_t seen = 0;
	unsigned next_mark = 1;

	for (unsigned i = 0; at && i < MAX_LINK_MAPS; i++) {
		struct link_map entry;
		int error;

		/* A circular list arrives at a mark (Brent, 1980). */
		if (at == seen)
			break;
		if (i == next_mark) {
			seen = at;
			next_mark *= 2;
		}

		error = read_list(target, at, &entry, sizeof(entry));
		if (error)
			return error;
		visit(&entry, space, context);
		at = (uint64_t)(uintptr_t)entry.l_next;
	}
	return 0;
}

/* Walks the list of the program's own namespace; with `others`, also those of the namespaces made
 * by dlmopen, which glibc lists since 2.35: from version 2 on there is a next list. */
static int walk_link_maps(const struct limpet_target *target, uint64_t r_debug, bool others,
			  link_map_fn *visit, void *context)
{
	struct r_debug_extended debug;
	int error = read_list(target, r_debug, &debug.base, sizeof(debug.base));

	if (!error)
		error = walk_space(target, (uint64_t)(uintptr_t)debug.base.r_map, 0, visit,
				   context);
	if (error || !others)
		return error;
	/* Namespaces come and go meanwhile: one that cannot be read no longer exists. */
	for (uint32_t space = 1; debug.base.r_version >= 2 && space < MAX_SPACES; space++) {
		if (read_list(target, r_debug, &debug, sizeof(debug)) < 0)
			break;
		r_debug = (uint64_t)(uintptr_t)debug.r_next;
		if (!r_debug || read_list(target, r_debug, &debug.base, sizeof(debug.base)) < 0)
			break;
		(void)walk_space(target, (uint64_t)(uintptr_t)debug.base.r_map, space, visit,
				 context);
	}
	return 0;
}

/* The loader is in each list. An entry of a namespace that was just removed may be where others are
 * now. */
static void mark_listed(const struct link_map *entry, uint32_t space, void *context)
{
	struct limpet_module *module = module_of_entry(context, entry);

	if (!module && !space && entry->l_ld)
		((struct limpet_modules *)context)->unlisted++;
	if (!module || (space && (module->in_list || module->bias != entry->l_addr)))
		return;
	module->in_list = true;
	module->bias = entry->l_addr;
	module->space = space;
}

static void add_to_fingerprint(const struct link_map *entry, uint32_t space, void *context)
{
	const uint64_t words[] = {entry->l_addr, (uint64_t)(uintptr_t)entry->l_ld, space};
	uint64_t *hash = context;

	for (size_t i = 0; i < LIMPET_COUNT_OF(words); i++) {
		*hash = (*hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
		*hash ^= *hash >> 29;
	}
}

int limpet_modules_fingerprint(const struct limpet_target *target, uint64_t r_debug,
			       uint64_t *ret_fingerprint)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	int error = r_debug ? walk_link_maps(target, r_debug, true, add_to_fingerprint, &hash) : 0;

	if (!error)
		*ret_fingerprint = hash;
	return error;
}

static size_t next_code(const struct limpet_maps *maps, size_t i)
{
	while (i < maps->count && (maps->list[i].perms[2] != 'x' || !maps->list[i].inode))
		i++;
	return i;
}

static bool have_same_code(const struct limpet_maps *maps, const struct limpet_maps *others)
{
	size_t i = next_code(maps, 0), k = next_code(others, 0);

	while (i < maps->count && k < others->count) {
		const struct limpet_map *map = &maps->list[i], *other = &others->list[k];

		if (map->start != other->start || map->end != other->end ||
		    map->offset != other->offset || !limpet_map_is_same_file(map, other))
			return false;
		i = next_code(maps, i + 1);
		k = next_code(others, k + 1);
	}
	return i == maps->count && k == others->count;
}

bool limpet_modules_are_current(struct limpet_modules *modules, uint64_t fingerprint)
{
	struct limpet_maps maps;
	uint64_t now = 0;

	if (limpet_modules_fingerprint(modules->target, modules->r_debug, &now) < 0 ||
	    now != fingerprint || limpet_proc_maps_read(modules->target->pid, &maps) < 0)
		return false;
	if (!have_same_code(&modules->maps, &maps)) {
		limpet_proc_maps_done(&maps);
		return false;
	}
	limpet_proc_maps_done(&modules->maps);
	modules->maps = maps;
	limpet_module_memory_set_maps(modules->memory, &maps);
	return true;
}

/* The program of a loader that was started by hand (`ld.so PROGRAM`): the first module that it has
 * loaded. The kernel takes the loader for the program then. NULL: not such a program, or not loaded
 * yet. */
static struct limpet_module *loaded_by_hand(struct limpet_modules *modules,
					    struct limpet_module *loader)
{
	uint64_t r_debug = limpet_module_symbol(modules->target, loader, "_r_debug", NULL);
	uint64_t pointer = limpet_module_symbol(modules->target, loader, "_dl_debug_addr", NULL);
	struct limpet_module *program;
	struct link_map first;
	struct r_debug debug;

	/* musl's */
	if (!r_debug && pointer &&
	    limpet_memory_read(modules->target->pid, pointer, &r_debug, sizeof(r_debug)) < 0)
		return NULL;
	if (!r_debug ||
	    limpet_memory_read(modules->target->pid, r_debug, &debug, sizeof(debug)) < 0 ||
	    limpet_memory_read(modules->target->pid, (uint64_t)(uintptr_t)debug.r_map, &first,
			       sizeof(first)) < 0)
		return NULL;
	program = module_of_entry(modules, &first);
	return program && program->has_interpreter ? program : NULL;
}

static int find_special(struct limpet_modules *modules)
{
	uint64_t phdr = 0, base = 0;
	struct limpet_module *program, *loader;

	limpet_proc_auxv(modules->target->pid, AT_PHDR, &phdr);
	limpet_proc_auxv(modules->target->pid, AT_BASE, &base);
	if (phdr)
		module_that_has(modules, phdr, phdr & ~4095ull, 0);
	loader = base ? module_that_has(modules, base, base, 0) : NULL;
	program = phdr ? module_at(modules, phdr) : NULL;
	if (program && !program->has_interpreter && !base) {
		struct limpet_module *loaded = loaded_by_hand(modules, program);

		loader = loaded ? module_at(modules, phdr) : NULL;
		program = loaded ? loaded : module_at(modules, phdr);
	}
	if (program)
		program->executable = true;
	if (loader) {
		loader->libc_loader = limpet_module_is_libc(modules->target, loader);
		loader->loader = !loader->libc_loader;
	}
	if (!program)
		return 0;
	if (!program->has_interpreter && !loader) {
		modules->fully_static = program->in_list = true;
		return 0;
	}
	modules->r_debug = dynamic_value(modules->target, program, DT_DEBUG);
	if (!modules->r_debug)
		return 0;
	return walk_link_maps(modules->target, modules->r_debug, true, mark_listed, modules);
}

/* ---------------------------------------------------------------- what an agent has changed */

/* The functions of an agent's hooks, in the order of its thunks. */
struct limpet_originals {
	uint64_t thunks, thunk_bytes;
	uint64_t functions[LIMPET_MAX_HOOKS];
};

/* As the agent says: a lie harms only that program itself. */
static void read_originals(struct limpet_modules *modules)
{
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	struct limpet_originals *originals;
	struct limpet_agent_info info;
	uint64_t address = 0;

	for (size_t i = 0; i < modules->count && !address; i++)
		if (modules->list[i].agent)
			address = limpet_module_symbol(modules->target, &modules->list[i],
						       "limpet_agent_info", NULL);
	if (!address ||
	    limpet_memory_read_own(modules->target->pid, address, &info, sizeof(info)) < 0 ||
	    info.magic != LIMPET_INFO_MAGIC || !info.thunks || !info.thunk_bytes ||
	    limpet_memory_read_own(modules->target->pid, info.hooks, hooks, sizeof(hooks)) < 0)
		return;
	originals = calloc(1, sizeof(*originals));
	if (!originals)
		return;
	originals->thunks = info.thunks;
	originals->thunk_bytes = info.thunk_bytes;
	for (size_t i = 0; i < LIMPET_MAX_HOOKS; i++)
		originals->functions[i] = hooks[i].original;
	modules->originals = originals;
	for (size_t i = 0; i < modules->count; i++)
		modules->list[i].originals = originals;
}

static void undo_values(const struct limpet_module *module)
{
	const struct limpet_originals *originals = module->originals;

	for (uint64_t i = 0; originals && i < module->symbol_count; i++) {
		Elf64_Sym *symbol = &module->symbols[i];
		uint64_t offset = module->bias + symbol->st_value - originals->thunks;
		uint64_t hook = offset / originals->thunk_bytes;

		if (symbol->st_shndx != SHN_UNDEF && hook < LIMPET_MAX_HOOKS &&
		    !(offset % originals->thunk_bytes) && originals->functions[hook])
			symbol->st_value = originals->functions[hook] - module->bias;
	}
}

/* Whether the mapping is a module's own, by its program headers: its code or its data may begin in
 * the page of the file that has the header. */
static bool is_part(const struct limpet_modules *modules, const struct limpet_map *map)
{
	for (size_t i = modules->count; i > 0; i--) {
		const struct limpet_module *module = &modules->list[i - 1];

		if (map->start <= module->last_head && limpet_module_is_of(module, map))
			return true;
	}
	return false;
}

/* All mapped images with code. An empty list is an error. */
static int list_modules(struct limpet_modules *modules, bool by_file)
{
	LIMPET_FREE size_t *code = NULL;
	size_t code_count;

	modules->list = calloc(modules->maps.count + 1, sizeof(*modules->list));
	modules->budget = malloc(sizeof(*modules->budget));
	code = list_code(&modules->maps, &code_count);
	if (!modules->list || !modules->budget || !code)
		return -ENOMEM;
	*modules->budget = BUDGET_BYTES;
	modules->memory = limpet_module_memory_new(modules->target, &modules->maps);
	for (size_t i = 0; i < modules->maps.count && modules->count < MAX_MODULES; i++) {
		const struct limpet_map *map = &modules->maps.list[i];
		struct limpet_module *module = &modules->list[modules->count];

		if (!may_be_module(&modules->maps, map, code, code_count, by_file) ||
		    is_part(modules, map))
			continue;
		memset(module, 0, sizeof(*module));
		if (read_module(modules, i, map->start, by_file, module) == 0 &&
		    has_code(modules, module, by_file))
			modules->count++;
		else
			free(module->path);
	}
	return modules->count ? 0 : -ESRCH;
}

int limpet_modules_read(const struct limpet_target *target, struct limpet_modules *ret_modules,
			struct limpet_err *err)
{
	struct limpet_modules modules = {.target = target};
	int error = limpet_proc_maps_read(target->pid, &modules.maps);

	if (error)
		return limpet_err_set(err, error, "cannot read the memory map of process %d: %s",
				      target->pid, strerror(-error));
	error = list_modules(&modules, false);
	if (!error)
		error = find_special(&modules);
	if (error) {
		limpet_modules_done(&modules);
		return error == -ENOMEM ? limpet_err_set(err, error, "out of memory")
					: limpet_proc_explain(target->pid, error,
							      "read the modules of", err);
	}
	read_originals(&modules);
	*ret_modules = modules;
	return 0;
}

int limpet_modules_of_files(const struct limpet_target *target, struct limpet_modules *ret_modules)
{
	struct limpet_modules modules = {.target = target};
	struct limpet_module *program;
	uint64_t phdr = 0;
	int error = limpet_proc_maps_read(target->pid, &modules.maps);

	if (!error)
		error = list_modules(&modules, true);
	if (error && error != -ESRCH) {
		limpet_modules_done(&modules);
		return error;
	}
	limpet_proc_auxv(target->pid, AT_PHDR, &phdr);
	program = phdr ? module_at(&modules, phdr) : NULL;
	if (program)
		program->executable = true;
	*ret_modules = modules;
	return 0;
}

void limpet_modules_done(struct limpet_modules *modules)
{
	for (size_t i = 0; modules->list && i < modules->count; i++) {
		free(modules->list[i].path);
		free(modules->list[i].symbols);
		free(modules->list[i].strings);
	}
	free(modules->list);
	free(modules->budget);
	limpet_module_memory_free(modules->memory);
	free(modules->originals);
	limpet_proc_maps_done(&modules->maps);
	memset(modules, 0, sizeof(*modules));
}

/* ---------------------------------------------------------------- tables */

struct dynamic_tables {
	uint64_t rela, rela_bytes, jmprel, jmprel_bytes, symtab, strtab, string_bytes, gnu_hash,
		hash;
	bool is_rel; /* relocations without addends */
};

/* glibc relocates the pointers of a dynamic section in place; musl does not. */
static uint64_t to_address(const struct limpet_module *module, uint64_t value)
{
	if (!value)
		return 0;
	if (value < module->start || value >= module->end)
		value += module->bias;
	return value >= module->start && value < module->end ? value : 0;
}

static int read_dynamic(const struct limpet_target *target, const struct limpet_module *module,
			struct dynamic_tables *tables)
{
	LIMPET_FREE Elf64_Dyn *dynamic = NULL;
	uint64_t bytes = module->dynamic_bytes;
	int error;

	memset(tables, 0, sizeof(*tables));
	if (!module->dynamic)
		return -ENOENT;
	if (bytes > MAX_DYNAMIC_BYTES)
		return -EFBIG;
	dynamic = malloc(bytes + sizeof(*dynamic));
	if (!dynamic)
		return -ENOMEM;
	error = limpet_module_read(target, module, module->dynamic, dynamic, bytes);
	if (error)
		return error;
	for (uint64_t i = 0; i < bytes / sizeof(*dynamic) && dynamic[i].d_tag != DT_NULL; i++) {
		uint64_t value = dynamic[i].d_un.d_val, address = to_address(module, value);

		switch (dynamic[i].d_tag) {
		case DT_RELA:
			tables->rela = address;
			break;
		case DT_RELASZ:
			tables->rela_bytes = value;
			break;
		case DT_JMPREL:
			tables->jmprel = address;
			break;
		case DT_PLTRELSZ:
			tables->jmprel_bytes = value;
			break;
		case DT_RELSZ:
			tables->is_rel |= value > 0;
			break;
		case DT_PLTREL:
			tables->is_rel |= value == DT_REL;
			break;
		case DT_SYMTAB:
			tables->symtab = address;
			break;
		case DT_STRTAB:
			tables->strtab = address;
			break;
		case DT_STRSZ:
			tables->string_bytes = value;
			break;
		case DT_GNU_HASH:
			tables->gnu_hash = address;
			break;
		case DT_HASH:
			tables->hash = address;
			break;
		default:
			break;
		}
	}
	return tables->symtab && tables->strtab ? 0 : -ENOENT;
}

/* The number of dynamic symbols is not stored anywhere: the old hash table has it as its chain
 * count; with a GNU hash table, the end of the last chain gives it. */
static uint64_t count_by_gnu_hash(const struct limpet_target *target,
				  const struct limpet_module *module, uint64_t table)
{
	LIMPET_FREE uint32_t *buckets = NULL;
	uint32_t head[4], last = 0, links[4096];
	uint64_t chains, index;

	if (limpet_module_read(target, module, table, head, sizeof(head)) < 0 ||
	    head[0] > MAX_SYMBOLS || head[2] > MAX_SYMBOLS)
		return 0;
	if (!limpet_module_spend(module, head[0] * 4ull))
		return 0;
	buckets = calloc(head[0] + 1, sizeof(*buckets));
	if (!buckets || limpet_module_read(target, module, table + sizeof(head) + head[2] * 8ull,
					   buckets, head[0] * 4ull) < 0)
		return 0;
	for (uint32_t i = 0; i < head[0]; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < head[1])
		return head[1];
	chains = table + sizeof(head) + head[2] * 8ull + head[0] * 4ull;
	index = last - head[1];
	while (index < MAX_SYMBOLS && chains + index * 4 < module->end &&
	       limpet_module_spend(module, sizeof(links))) {
		uint64_t at = chains + index * 4, left = module->end - at;
		ssize_t got = limpet_module_read_some(target, module, at, links,
						      left < sizeof(links) ? left : sizeof(links));

		if (got < (ssize_t)sizeof(*links))
			return 0;
		for (size_t i = 0; i < (size_t)got / sizeof(*links); i++, index++)
			if (links[i] & 1)
				return head[1] + index + 1;
	}
	return 0;
}

static uint64_t count_symbols(const struct limpet_target *target,
			      const struct limpet_module *module,
			      const struct dynamic_tables *tables)
{
	uint32_t head[2];

	if (tables->hash &&
	    limpet_module_read(target, module, tables->hash, head, sizeof(head)) == 0)
		return head[1];
	return tables->gnu_hash ? count_by_gnu_hash(target, module, tables->gnu_hash) : 0;
}

static void *copy_table(const struct limpet_target *target, const struct limpet_module *module,
			uint64_t address, uint64_t bytes)
{
	void *copy;

	if (!address || !bytes || bytes > MAX_TABLE_BYTES || address < module->start ||
	    bytes > module->end - address || !limpet_module_spend(module, bytes))
		return NULL;
	copy = malloc(bytes);
	if (copy && limpet_module_read(target, module, address, copy, bytes) < 0) {
		free(copy);
		copy = NULL;
	}
	return copy;
}

static uint64_t highest_symbol(const Elf64_Rela *rela, uint64_t count, uint64_t highest)
{
	for (uint64_t i = 0; i < count; i++)
		if (ELF64_R_SYM(rela[i].r_info) >= highest)
			highest = ELF64_R_SYM(rela[i].r_info) + 1;
	return highest;
}

/* Hash tables leave out undefined symbols; relocations show how far the table reaches. */
static int load_symbols(const struct limpet_target *target, struct limpet_module *module,
			const struct dynamic_tables *tables, uint64_t at_least)
{
	uint64_t count;

	if (module->symbols && module->symbol_count >= at_least)
		return 0;
	count = count_symbols(target, module, tables);
	if (count < at_least)
		count = at_least;
	if (count > (module->end - module->start) / sizeof(Elf64_Sym))
		count = (module->end - module->start) / sizeof(Elf64_Sym);
	free(module->symbols);
	free(module->strings);
	module->symbols = copy_table(target, module, tables->symtab, count * sizeof(Elf64_Sym));
	module->symbol_count = module->symbols ? count : 0;
	module->symbols_address = tables->symtab;
	undo_values(module);
	module->strings = copy_table(target, module, tables->strtab, tables->string_bytes);
	module->string_bytes = module->strings ? tables->string_bytes : 0;
	if (module->strings)
		module->strings[module->string_bytes - 1] = '\0';
	return module->symbols && module->strings ? 0 : -ENOENT;
}

/* A module that was unloaded meanwhile has no tables; one that is still there has too large ones.
 */
static int why_not_copied(const struct limpet_target *target, const struct limpet_module *module)
{
	struct dynamic_tables tables;
	int error = read_dynamic(target, module, &tables);

	return error ? error : -EFBIG;
}

int limpet_module_tables_read(const struct limpet_target *target, struct limpet_module *module,
			      struct limpet_slot_tables *ret_tables)
{
	struct limpet_slot_tables result = {.string_bytes = 0};
	struct dynamic_tables tables;
	uint64_t highest = 0;
	int error = read_dynamic(target, module, &tables);

	if (error)
		return error;
	if (tables.is_rel)
		return -EOPNOTSUPP;
	result.rela[0] = copy_table(target, module, tables.rela, tables.rela_bytes);
	result.rela[1] = copy_table(target, module, tables.jmprel, tables.jmprel_bytes);
	if ((tables.rela_bytes && !result.rela[0]) || (tables.jmprel_bytes && !result.rela[1])) {
		limpet_module_tables_done(&result);
		return why_not_copied(target, module);
	}
	result.rela_count[0] = result.rela[0] ? tables.rela_bytes / sizeof(Elf64_Rela) : 0;
	result.rela_count[1] = result.rela[1] ? tables.jmprel_bytes / sizeof(Elf64_Rela) : 0;
	for (int i = 0; i < 2; i++)
		highest = highest_symbol(result.rela[i], result.rela_count[i], highest);
	error = load_symbols(target, module, &tables, highest);
	if (error) {
		limpet_module_tables_done(&result);
		return highest ? why_not_copied(target, module) : error;
	}
	result.symbols = module->symbols;
	result.symbol_count = module->symbol_count;
	result.strings = module->strings;
	result.string_bytes = module->string_bytes;
	*ret_tables = result;
	return 0;
}

void limpet_module_tables_done(struct limpet_slot_tables *tables)
{
	for (int i = 0; i < 2; i++) {
		free((void *)(uintptr_t)tables->rela[i]);
		tables->rela[i] = NULL;
	}
}

uint64_t limpet_module_symbol(const struct limpet_target *target, struct limpet_module *module,
			      const char *name, Elf64_Sym *ret_symbol)
{
	struct dynamic_tables tables;
	size_t length = strlen(name);

	if (!module->symbols && (read_dynamic(target, module, &tables) < 0 ||
				 load_symbols(target, module, &tables, 0) < 0))
		return 0;
	for (uint64_t i = 1; i < module->symbol_count; i++) {
		const Elf64_Sym *symbol = &module->symbols[i];
		unsigned type = ELF64_ST_TYPE(symbol->st_info);

		if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value ||
		    (type != STT_FUNC && type != STT_NOTYPE && type != STT_OBJECT) ||
		    symbol->st_name + length + 1 > module->string_bytes ||
		    memcmp(module->strings + symbol->st_name, name, length + 1) != 0)
			continue;
		if (ret_symbol)
			*ret_symbol = *symbol;
		return module->bias + symbol->st_value;
	}
	return 0;
}

void limpet_module_exports(const struct limpet_target *target, struct limpet_module *module,
			   void (*found)(uint64_t address, void *context), void *context)
{
	struct dynamic_tables tables;

	if (!module->symbols && (read_dynamic(target, module, &tables) < 0 ||
				 load_symbols(target, module, &tables, 0) < 0))
		return;
	for (uint64_t i = 1; i < module->symbol_count; i++) {
		const Elf64_Sym *symbol = &module->symbols[i];

		if (symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
		    ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
			found(module->bias + symbol->st_value, context);
	}
}

static bool is_name_of(const struct limpet_module *module, const Elf64_Sym *symbol, uint16_t op)
{
	int member = symbol->st_name < module->string_bytes
			     ? limpet_family_find(module->strings + symbol->st_name,
						  module->string_bytes - symbol->st_name)
			     : -1;

	return member >= 0 && limpet_family[member].op == op;
}

void limpet_module_names_of(const struct limpet_target *target, struct limpet_module *module,
			    uint64_t function, uint16_t op,
			    void (*found)(uint64_t address, void *context), void *context)
{
	struct dynamic_tables tables;

	if (!module->symbols && (read_dynamic(target, module, &tables) < 0 ||
				 load_symbols(target, module, &tables, 0) < 0))
		return;
	for (uint64_t i = 1; i < module->symbol_count && module->symbols_address; i++) {
		const Elf64_Sym *symbol = &module->symbols[i];
		unsigned type = ELF64_ST_TYPE(symbol->st_info);

		if (symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
		    (type == STT_FUNC || type == STT_NOTYPE) &&
		    module->bias + symbol->st_value == function && is_name_of(module, symbol, op))
			found(module->symbols_address + i * sizeof(*symbol) +
				      offsetof(Elf64_Sym, st_value),
			      context);
	}
}

/* glibc's loader has a malloc of its own until 2.31, but none of these functions. */
bool limpet_module_is_libc(const struct limpet_target *target, struct limpet_module *module)
{
	return limpet_module_symbol(target, module, "sigaction", NULL) &&
	       limpet_module_has_malloc(target, module) &&
	       limpet_module_symbol(target, module, "fopen", NULL);
}

bool limpet_modules_is_libc(struct limpet_modules *modules, struct limpet_module *module)
{
	if (limpet_module_is_libc(modules->target, module))
		return true;
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *other = &modules->list[i];

		if (other != module && module->inode && other->inode == module->inode &&
		    other->dev_major == module->dev_major &&
		    other->dev_minor == module->dev_minor &&
		    limpet_module_is_libc(modules->target, other))
			return true;
	}
	return false;
}

bool limpet_module_has_malloc(const struct limpet_target *target, struct limpet_module *module)
{
	if (module->has_malloc == LIMPET_NOT_ASKED)
		module->has_malloc = limpet_module_symbol(target, module, "malloc", NULL)
					     ? LIMPET_YES
					     : LIMPET_NO;
	return module->has_malloc == LIMPET_YES;
}

struct symbol_search {
	struct limpet_modules *modules;
	const char *name;
	struct limpet_module *module;
	uint64_t address;
};

static void search_module(const struct link_map *entry, uint32_t space, void *context)
{
	struct symbol_search *search = context;
	struct limpet_module *module;

	(void)space;
	if (search->address)
		return;
	module = module_at(search->modules, (uint64_t)(uintptr_t)entry->l_ld);
	if (!module || module->agent || module->search == search->modules->searches)
		return;
	module->search = search->modules->searches;
	search->address = limpet_module_symbol(search->modules->target, module, search->name, NULL);
	search->module = module;
}

uint64_t limpet_modules_symbol(struct limpet_modules *modules, const char *name,
			       struct limpet_module **ret_module)
{
	struct symbol_search search = {.modules = modules, .name = name};

	modules->searches++;
	if (!modules->r_debug ||
	    walk_link_maps(modules->target, modules->r_debug, false, search_module, &search) < 0 ||
	    !search.address)
		return 0;
	if (ret_module)
		*ret_module = search.module;
	return search.address;
}

uint32_t limpet_modules_symbol_in_space(struct limpet_modules *modules, uint32_t space,
					const char *name, uint64_t *ret_address)
{
	uint32_t found = 0;

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		uint64_t address =
			module->in_list && module->space == space && !module->agent
				? limpet_module_symbol(modules->target, module, name, NULL)
				: 0;

		if (!address)
			continue;
		*ret_address = address;
		found++;
	}
	return found;
}

/* Whether the file may be the module's. If each file of a file system has a device of its own, or
 * maps show the device of the file system below, the inode number alone must do. */
static bool is_of_module(int named, const char *process, const struct limpet_module *module)
{
	struct limpet_mount mount;
	struct statx status;

	if (statx(named, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status) < 0 ||
	    status.stx_ino != module->inode)
		return false;
	if (status.stx_dev_major == module->dev_major && status.stx_dev_minor == module->dev_minor)
		return true;
	return limpet_mount_of(named, process, &mount) == 0 &&
	       (!strcmp(mount.type, "overlay") || !strcmp(mount.type, "btrfs"));
}

/* Only names the file; it is not opened for reading. */
static int name_file(const char *process, const struct limpet_module *module)
{
	char path[PATH_MAX + 8];
	int named;

	if (module->vdso || module->path[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "map_files/%lx-%lx", (unsigned long)module->map_start,
		 (unsigned long)module->map_end);
	named = limpet_open_link(process, path);
	if (named >= 0 && is_of_module(named, process, module))
		return named;
	if (named >= 0)
		close(named);
	snprintf(path, sizeof(path), "%s/root", process);
	named = limpet_open_name(path, module->path, 0);
	if (named < 0 || is_of_module(named, process, module))
		return named;
	close(named);
	return -ESTALE;
}

static int open_or_name(const struct limpet_target *target, const struct limpet_module *module,
			bool hold)
{
	char process[PATH_MAX];
	LIMPET_CLOSE int named = -1;
	int fd;

	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root,
		 limpet_proc_resident(target->pid));
	named = name_file(process, module);
	if (named < 0)
		return -1;
	fd = limpet_open_named(named, process, hold ? LIMPET_OPEN_IN_PLACE : 0, NULL);
	if (hold && fd == -EOPNOTSUPP)
		return limpet_take_fd(&named);
	return fd < 0 ? -1 : fd;
}

int limpet_module_open(const struct limpet_target *target, const struct limpet_module *module)
{
	return open_or_name(target, module, false);
}

int limpet_module_hold(const struct limpet_target *target, const struct limpet_module *module)
{
	return open_or_name(target, module, true);
}
