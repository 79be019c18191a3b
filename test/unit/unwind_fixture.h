/* What the tests and the benchmark of the unwinder share: tables of files and of this process. */
#ifndef LIMPET_TEST_UNIT_UNWIND_FIXTURE_H
#define LIMPET_TEST_UNIT_UNWIND_FIXTURE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/unwind_walk.h"
#include "injector/unwind/unwind_compile.h"

/* An ELF file, with its table compiled for the file's own layout, as an arena of one module. */
struct fixture_file {
	int fd;
	Elf *elf;
	struct limpet_unwind_input input;
	struct limpet_unwind_stats stats;
	uint8_t *arena;
	const struct limpet_unwind_table *table;
	struct limpet_unwind_module module;
	struct limpet_walk_map map;
};
/* False: no such file. Everything else that goes wrong fails the test. */
bool fixture_file_open(const char *path, struct fixture_file *ret_file);
void fixture_file_close(struct fixture_file *file);

/* A map of one table, copied to an arena that the caller frees. */
uint8_t *fixture_map_table(const void *table, size_t bytes, uint64_t start,
			   struct limpet_unwind_module *module, struct limpet_walk_map *ret_map);

/* The path of a library of ours with this in its name, "" if there is none; valid until the next
 * call. */
const char *fixture_own_module(const char *part);

/* The pc of each row, ascending; malloc'ed, as many as table->row_count. */
uint32_t *fixture_row_offsets(const struct limpet_unwind_table *table);

/* All modules of this process, compiled from memory as the injector does it for a target. */
struct fixture_process {
	struct limpet_unwind_module *modules;
	uint8_t *arena;
	size_t arena_bytes;
	struct limpet_walk_map map;
};
void fixture_process_init(struct fixture_process *ret_process);
void fixture_process_done(struct fixture_process *process);

/* The stack of the calling thread, [low, high). */
void fixture_stack(uint64_t *ret_low, uint64_t *ret_high);

#endif
