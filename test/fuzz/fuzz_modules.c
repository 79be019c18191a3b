/* Modules in memory as a hostile target shows them: ELF heads, program headers, dynamic sections,
 * hash and symbol tables, relocations, the loader's list, .eh_frame. The "target" is this very
 * process, of which a substitute /proc shows three mappings: a program, a C library, and a heap
 * with the loader's list.
 *
 * The input is a list of patches of this memory, each place (4 bytes), length (2 bytes), bytes. */
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/elf/modules.h"
#include "injector/hook/plan.h"
#include "injector/proc/proc.h"
#include "injector/remote/safepoint.h"
#include "injector/remote/segment.h"
#include "test/unit/target_of.h"

/* Where the seeds' pointers lead. */
#define BASE 0x200000000000ull
#define AREA_BYTES 0x8000ull
#define AREAS 3u
#define MEMORY_BYTES (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64];
static uint8_t *memory;
static struct limpet_segment segment;

static void put(const char *name, const void *data, size_t size)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%d/%s", directory, getpid(), name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

static void clean(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (system(command))
		fprintf(stderr, "%s failed\n", command);
}

static void begin(void)
{
	static const char *const lines[AREAS] = {"r-xp 00000000 08:01 11 /usr/bin/a",
						 "r-xp 00000000 08:01 12 /lib/libc.so.6",
						 "rw-p 00000000 00:00 0 [heap]"};
	const uint64_t auxv[] = {AT_PHDR, BASE + sizeof(ElfW(Ehdr)), AT_BASE, BASE + AREA_BYTES, 0,
				 0};
	struct limpet_err err;
	char maps[512], path[96];
	size_t used = 0;

	strcpy(directory, "/dev/shm/limpet-fuzz-XXXXXX");
	if (!mkdtemp(directory))
		abort();
	atexit(clean);
	snprintf(path, sizeof(path), "%s/%d", directory, getpid());
	mkdir(path, 0700);
	for (unsigned i = 0; i < AREAS; i++)
		used += (size_t)snprintf(maps + used, sizeof(maps) - used, "%llx-%llx %s\n",
					 BASE + i * AREA_BYTES, BASE + (i + 1) * AREA_BYTES,
					 lines[i]);
	put("maps", maps, used);
	put("auxv", auxv, sizeof(auxv));
	limpet_proc_root = directory;
	memory = mmap((void *)(uintptr_t)BASE, AREAS * AREA_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (memory != (void *)(uintptr_t)BASE ||
	    limpet_segment_create(MEMORY_BYTES, 0, NULL, &segment, &err) < 0)
		abort();
}

static void patch(const uint8_t *data, size_t size)
{
	memset(memory, 0, AREAS * AREA_BYTES);
	while (size > 6) {
		uint32_t place;
		size_t length = data[4] | (size_t)data[5] << 8;

		memcpy(&place, data, sizeof(place));
		place %= (uint32_t)(AREAS * AREA_BYTES);
		data += 6;
		size -= 6;
		if (length > size)
			length = size;
		if (length > AREAS * AREA_BYTES - place)
			length = AREAS * AREA_BYTES - place;
		memcpy(memory + place, data, length);
		data += length;
		size -= length;
	}
}

static int note_slot(const struct limpet_slot_found *found, void *context)
{
	*(uint64_t *)context += found->offset + found->symbol;
	return 0;
}

static void read_tables(struct limpet_modules *modules)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		struct limpet_slot_tables tables;

		(void)limpet_module_has_malloc(modules->target, module);
		if (limpet_module_tables_read(modules->target, module, &tables) < 0)
			continue;
		if (tables.symbol_count * sizeof(Elf64_Sym) > module->end - module->start)
			abort();
		limpet_slots_scan(&tables, note_slot, &sum);
		limpet_module_tables_done(&tables);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct limpet_safepoint *safepoint;
	struct limpet_modules modules;
	struct limpet_entries entries;
	struct limpet_plan plan;
	struct limpet_err err;
	uint64_t fingerprint;

	if (!directory[0])
		begin();
	patch(data, size);
	if (limpet_modules_read(target_of(getpid()), &modules, &err) < 0)
		return 0;
	(void)limpet_modules_fingerprint(target_of(getpid()), modules.r_debug, &fingerprint);
	read_tables(&modules);
	segment.tables.arena_used = LIMPET_UNWIND_ALIGN;
	segment.tables.module_count = 0;
	if (limpet_segment_update_tables(&segment, &modules, 0) < 0)
		abort();
	if (limpet_entries_find(&modules, NULL, &entries) < 0)
		abort();
	if (limpet_plan_make(&modules, &entries, LIMPET_METHOD_ANY, &plan, &err) == 0 &&
	    !plan.slot_count && !entries.count)
		abort();
	if (plan.slots)
		limpet_plan_fill_segment(&plan, &modules, &segment);
	limpet_entries_done(&entries);
	if (segment.shm->slot_count > LIMPET_MAX_SLOTS || plan.start.hook_count > LIMPET_MAX_HOOKS)
		abort();
	limpet_plan_done(&plan);
	if (limpet_safepoint_new(&modules, &segment, &safepoint) == 0)
		limpet_safepoint_free(safepoint);
	limpet_modules_done(&modules);
	return 0;
}
