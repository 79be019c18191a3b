#include "injector/elf/preflight_allocators.h"

#include "injector/elf/thread_stacks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base_name.h"
#include "injector/elf/allocator_texts.h"
#include "injector/elf/allocators.h"
#include "injector/elf/entry_names.h"
#include "injector/proc/memory.h"
#include "injector/proc/pagemap.h"
#include "injector/proc/target_process.h"

static const char note_v8[] =
	"JavaScript objects live in V8's own heap: limpet sees that heap's maps, not the objects";
static const char note_python[] =
	"Python objects up to 512 bytes live in pymalloc's arenas, which limpet sees only as maps, "
	"unless Python was started with PYTHONMALLOC=malloc";
static const char note_jvm[] =
	"Java objects live in the JVM's own heap: limpet sees the native memory around it; jcmd "
	"PID "
	"Compiler.perfmap during the capture gives Java's functions their names";
static const char note_dotnet[] =
	".NET objects live in the runtime's own heap: limpet sees the native memory around it";

static const struct {
	const char *symbol, *runtime, *note;
} runtime_symbols[] = {
	{"v8dbg_*", "V8", note_v8},
	{"_ZN2v82V8*", "V8", note_v8}, /* class v8::V8 */
	{"PyObject_Malloc", "CPython", note_python},
	{"JNI_CreateJavaVM", "JVM", note_jvm},
};

/* Symbols that only the C library's own objects define. */
static const struct {
	const char *symbol, *libc;
} libc_symbols[] = {
	{"_IO_2_1_stdout_", "glibc"}, {"__malloc_donate", "musl"},  {"__libc_start_init", "musl"},
	{"__uClibc_main", "uClibc"},  {"__bionic_clone", "bionic"},
};

/* ------------------------------------------------------------------ executables */

static bool name_matches(const char *name, const char *marker)
{
	size_t length;

	if (name[0] != marker[0] || name[1] != marker[1])
		return false;
	length = strlen(marker);
	if (marker[length - 1] == '*')
		return !strncmp(name, marker, length - 1);
	return !strcmp(name, marker);
}

static bool is_marked(const struct limpet_allocator *allocator, const char *name)
{
	for (const char *const *marker = allocator->markers; marker && *marker; marker++)
		if (name_matches(name, *marker))
			return true;
	return false;
}

struct reading {
	struct limpet_program *program;
	bool allocates, releases, news, deletes;
};

static bool visit_symbol(void *context, const char *name)
{
	struct reading *reading = context;
	struct limpet_program *program = reading->program;
	struct limpet_entry_name entry;

	if (limpet_entry_name_find(name, &entry)) {
		program->own_pools |= entry.family == LIMPET_ENTRY_POOL;
		reading->allocates |= entry.op == LIMPET_OP_MALLOC;
		reading->releases |= entry.op == LIMPET_OP_FREE;
		reading->news |=
			entry.family == LIMPET_ENTRY_OPERATORS && entry.op == LIMPET_OP_MALLOC;
		reading->deletes |=
			entry.family == LIMPET_ENTRY_OPERATORS && entry.op == LIMPET_OP_FREE;
	}
	/* Found by the code inside them (entry_nim.h). */
	reading->allocates |= !strncmp(name, "rawAlloc__system_", 17);
	reading->releases |= !strncmp(name, "rawDealloc__system_", 19);
	if (!strcmp(name, "malloc"))
		program->own_malloc = true;
	for (size_t i = 0; !program->own_allocator && limpet_allocators[i]; i++)
		if (is_marked(limpet_allocators[i], name))
			program->own_allocator = limpet_allocators[i]->name;
	for (size_t i = 0; !program->runtime && i < LIMPET_COUNT_OF(runtime_symbols); i++)
		if (name_matches(name, runtime_symbols[i].symbol)) {
			program->runtime = runtime_symbols[i].runtime;
			program->runtime_note = runtime_symbols[i].note;
		}
	for (size_t i = 0; !program->static_libc && i < LIMPET_COUNT_OF(libc_symbols); i++)
		if (name_matches(name, libc_symbols[i].symbol))
			program->static_libc = libc_symbols[i].libc;
	return true;
}

/* What its programs print before they end by SIGSEGV. */
static const char nim_text[] = "(Attempt to read from nil?)";

static bool visit_nim(void *context, const char *at, size_t before, size_t after)
{
	(void)at;
	(void)before;
	(void)after;
	((struct limpet_program *)context)->is_nim = true;
	return false;
}

/* Two messages of V8, in parts, so that limpet itself does not contain them. */
static const struct {
	const char *head, *needle;
} v8_texts[] = {{"Embedder", "-vs-V8 build configuration mismatch"},
		{"Fatal ", "JavaScript invalid size error"}};

struct v8_text {
	const char *head;
	bool found;
};

static bool visit_v8(void *context, const char *at, size_t before, size_t after)
{
	struct v8_text *text = context;
	const size_t head = strlen(text->head);

	(void)after;
	text->found = before >= head && !memcmp(at - head, text->head, head);
	return !text->found;
}

/* Whether a program without names has V8 inside. */
static bool has_v8(const struct limpet_elf_file *file)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(v8_texts); i++) {
		struct v8_text text = {.head = v8_texts[i].head};

		(void)limpet_elf_file_search(file, v8_texts[i].needle, visit_v8, &text);
		if (!text.found)
			return false;
	}
	return true;
}

int limpet_program_read(int fd, struct limpet_program *ret_program)
{
	struct limpet_program program = {0};
	struct reading reading = {.program = &program};
	struct limpet_elf_file *file;
	const char *interpreter;
	int r = limpet_elf_file_open(fd, &file);

	if (r < 0)
		return r;
	program.bits = limpet_elf_file_bits(file);
	program.native = limpet_elf_file_is_native(file);
	program.has_symtab = limpet_elf_file_has_symtab(file);
	interpreter = limpet_elf_file_interpreter(file);
	if (interpreter)
		snprintf(program.interpreter, sizeof(program.interpreter), "%s", interpreter);
	if (program.native) {
		r = limpet_elf_file_symbols(file, visit_symbol, &reading);
		if (r == -ENOMEM)
			goto out;
		program.cut = r < 0;
		program.own_entries = reading.allocates && reading.releases;
		program.own_operators = reading.news && reading.deletes;
		/* A Go program keeps these sections when it is stripped; the first can be left
		 * out. */
		if (!program.own_allocator && (limpet_elf_file_has_section(file, ".go.buildinfo") ||
					       limpet_elf_file_has_section(file, ".gopclntab")))
			program.own_allocator = "the Go runtime";
		if (!program.own_allocator && (!program.has_symtab || program.own_malloc))
			program.own_allocator = limpet_allocator_texts_find(file);
		if (!program.own_allocator && !program.has_symtab)
			(void)limpet_elf_file_search(file, nim_text, visit_nim, &program);
		if (!program.runtime && !program.has_symtab && has_v8(file)) {
			program.runtime = "V8";
			program.runtime_note = note_v8;
		}
	}
	*ret_program = program;
	r = 0;
out:
	limpet_elf_file_free(file);
	return r;
}

bool limpet_allocator_has_entries(const struct limpet_program *program)
{
	for (size_t i = 0; program->own_allocator && limpet_allocators[i]; i++)
		if (!strcmp(program->own_allocator, limpet_allocators[i]->name))
			return program->own_entries && !limpet_allocators[i]->is_more_than_names;
	return program->own_entries;
}

/* ------------------------------------------------------------------ libraries */

/* "libfoo" is followed by '.', '-' or '_': libfoo.so.2, libfoo-1.so, libfoo_minimal.so. */
static bool library_is(const char *path, const char *name)
{
	size_t length = strlen(name);
	const char *base = limpet_base_name(path);

	return !strncmp(base, name, length) && base[length] && strchr(".-_", base[length]) &&
	       strstr(base + length, ".so");
}

const char *limpet_allocator_of_library(const char *path)
{
	for (size_t i = 0; limpet_allocators[i]; i++)
		if (limpet_allocators[i]->library &&
		    library_is(path, limpet_allocators[i]->library))
			return limpet_allocators[i]->name;
	return NULL;
}

const char *limpet_garbage_collector_of_library(const char *path)
{
	return library_is(path, "libgc") ? "the Boehm collector" : NULL;
}

const char *limpet_runtime_of_library(const char *path, const char **ret_note)
{
	static const struct {
		const char *library, *runtime, *note;
	} table[] = {
		{"libnode", "V8", note_v8},
		{"libv8", "V8", note_v8},
		{"libpython2", "CPython", note_python},
		{"libpython3", "CPython", note_python},
		{"libjvm", "JVM", note_jvm},
		{"libcoreclr", ".NET", note_dotnet},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(table); i++)
		if (library_is(path, table[i].library)) {
			*ret_note = table[i].note;
			return table[i].runtime;
		}
	return NULL;
}

bool limpet_runtime_has_own_heap(const char *runtime)
{
	return runtime[0] && strcmp(runtime, "CPython") != 0;
}

const char *limpet_runtime_article(const char *runtime)
{
	return strcmp(runtime, "JVM") ? "" : "the ";
}

/* ------------------------------------------------------------------ the unseen share */

/* malloc/arena.c: a secondary arena is a region of HEAP_MAX_SIZE, aligned to it, whose head is
 * writable and whose rest is reserved without access. */
#define ARENA_BYTES ((uint64_t)64 << 20)
#define ARENA_HEAD_LIMIT_BYTES ((uint64_t)256)

static bool is_reserve(const struct limpet_map *map)
{
	return limpet_map_is_anonymous(map) && !strncmp(map->perms, "---", 3);
}

/* A page that was never touched is not read: that would map it, or wait for whoever serves a
 * userfaultfd. */
static bool read_word(pid_t pid, int pagemap, uint64_t address, uint64_t *ret_word)
{
	bool exists = false;

	return limpet_pagemap_run(pagemap, address, sizeof(*ret_word), &exists) > 0 && exists &&
	       limpet_memory_read(pid, address, ret_word, sizeof(*ret_word)) == 0;
}

/* Go reserves its heap in regions of the same size and alignment: the head of an arena
 * distinguishes them. Its first word points to the arena's state, which directly follows a head. */
static bool is_arena(pid_t pid, int pagemap, const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i], *next = map + 1;
	uint64_t state = 0;

	if (map->start % ARENA_BYTES || !strchr(map->perms, 'w'))
		return false;
	if (map->end - map->start < ARENA_BYTES &&
	    (i + 1 >= maps->count || next->start != map->end || !is_reserve(next) ||
	     next->end < map->start + ARENA_BYTES))
		return false;
	if (!read_word(pid, pagemap, map->start, &state))
		return false;
	return state % ARENA_BYTES && state % ARENA_BYTES <= ARENA_HEAD_LIMIT_BYTES &&
	       limpet_proc_maps_find(maps, state);
}

static bool is_thread_stack(const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i];

	return limpet_map_has_guard(maps, i) && map->end - map->start <= LIMPET_STACK_LIMIT_BYTES &&
	       strchr(map->perms, 'w');
}

/* A module's .bss continues after the mapping of its data. */
static bool is_module_data(const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i], *data = map - 1;

	return i && data->end == map->start && data->inode && data->path[0] == '/' &&
	       strchr(data->perms, 'w');
}

static bool is_unseen(pid_t pid, int pagemap, const struct limpet_maps *maps, uint64_t start)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, start);
	size_t i = map ? (size_t)(map - maps->list) : 0;

	return map && map->start == start && limpet_map_is_anonymous(map) &&
	       !is_arena(pid, pagemap, maps, i) && !is_thread_stack(maps, i) &&
	       !is_module_data(maps, i);
}

/* Walks over all page tables; used only if an allocator is out of reach. The two readings are of
 * different moments: a mapping that only one of them has is left out. */
int limpet_unseen_rss(const struct limpet_target *target, uint64_t *ret_unseen_bytes,
		      uint64_t *ret_rss_bytes)
{
	uint64_t unseen_bytes = 0, rss_bytes = 0, bytes;
	struct limpet_maps maps;
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	int r, pagemap;

	r = limpet_proc_maps_read(target->pid, &maps);
	if (r < 0)
		return r;
	r = limpet_proc_smaps_read(target->pid, &smaps);
	if (r < 0) {
		limpet_proc_maps_done(&maps);
		return r;
	}
	pagemap = limpet_pagemap_open(target->pid);
	while ((r = limpet_proc_smaps_next(&smaps, &smap)) > 0) {
		if (!limpet_smap_bytes(&smap, "Rss", &bytes))
			continue;
		rss_bytes += bytes;
		if (is_unseen(target->pid, pagemap, &maps, smap.map.start))
			unseen_bytes += bytes;
	}
	if (pagemap >= 0)
		close(pagemap);
	limpet_proc_smaps_done(&smaps);
	limpet_proc_maps_done(&maps);
	if (r < 0)
		return r;
	*ret_unseen_bytes = unseen_bytes;
	*ret_rss_bytes = rss_bytes;
	return 0;
}
