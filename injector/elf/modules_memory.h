/* Reads the memory of a module without adding to the process's resident memory. To read a page that
 * is not present through the process would map it there, with those around it: some MiB of code,
 * symbols and unwind tables, which would stay, and count as the program's.
 *
 * What is present is read from memory. A page that is not present, and was not swapped out, has the
 * contents of the file: it is read from there. Memory without a file that was never touched is
 * zero. The process's page is read if the pagemap or the file cannot be, if the program may serve
 * the file itself, and if the file was changed since the process started: on overlayfs the mapped
 * one is then another. */
#ifndef LIMPET_INJECTOR_ELF_MODULES_MEMORY_H
#define LIMPET_INJECTOR_ELF_MODULES_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/elf/modules.h"

struct limpet_target;

/* What a list of modules shares for that. `maps` are borrowed, the state of when they were read.
 * One thread. NULL: no memory. */
struct limpet_module_memory;
struct limpet_module_memory *limpet_module_memory_new(const struct limpet_target *target,
						      const struct limpet_maps *maps);
/* Mappings that were read later; NULL memory is allowed. */
void limpet_module_memory_set_maps(struct limpet_module_memory *memory,
				   const struct limpet_maps *maps);
void limpet_module_memory_free(struct limpet_module_memory *memory);
/* Closes the modules' files that were read, so that the program may unmount their file system; what
 * is read later opens them again. NULL is allowed. */
void limpet_module_memory_close_files(struct limpet_module_memory *memory);
/* Reads what is readable from the beginning of one of these mappings on. Returns how many bytes, or
 * -errno. */
ssize_t limpet_module_memory_read_map(struct limpet_module_memory *memory,
				      const struct limpet_map *map, void *ret, size_t bytes);

/* What the module's file has there, in one mapping of it. */
int limpet_module_read_file(const struct limpet_target *target, const struct limpet_module *module,
			    const struct limpet_maps *maps, uint64_t address, void *ret,
			    size_t bytes) LIMPET_MUST_CHECK;
/* Like limpet_memory_read() and limpet_memory_read_some(), from an address of the module on. For
 * another address, and for a module without limpet_module.memory, they are the same. */
int limpet_module_read(const struct limpet_target *target, const struct limpet_module *module,
		       uint64_t address, void *ret, size_t bytes) LIMPET_MUST_CHECK;
ssize_t limpet_module_read_some(const struct limpet_target *target,
				const struct limpet_module *module, uint64_t address, void *ret,
				size_t bytes);

#endif
