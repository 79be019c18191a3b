/* Recognizes an allocator that is inside an executable or library although no name is left of it:
 * by the messages that it can print.
 *
 * One such text proves nothing, since other programs mention allocators, too. Two independent ones
 * are needed; each is a whole message of a released allocator. */
#ifndef LIMPET_INJECTOR_ELF_ALLOCATOR_TEXTS_H
#define LIMPET_INJECTOR_ELF_ALLOCATOR_TEXTS_H

#include "injector/elf/elf_file.h"

/* "jemalloc", "mimalloc", "tcmalloc"; static. NULL: none of them is recognized. Reads up to 256 MiB
 * of the file twice. */
const char *limpet_allocator_texts_find(const struct limpet_elf_file *file);

#endif
