/* Which allocators a program uses, told by names: of symbols in its executable, of texts in a
 * stripped one, of the libraries it has mapped. */
#ifndef LIMPET_INJECTOR_IMAGE_PREFLIGHT_ALLOCATORS_H
#define LIMPET_INJECTOR_IMAGE_PREFLIGHT_ALLOCATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "injector/image/elf_file.h"
#include "injector/proc/proc.h"

/* What an executable contains. Plain data, so that it can be remembered by (device, inode). */
struct limpet_program {
	unsigned bits;                /* 32, 64 */
	bool native, has_symtab, cut; /* cut: its symbols were too many or broken */
	char interpreter[128];        /* "": none */
	const char *own_allocator;    /* static text; NULL: none known to be linked in */
	bool own_malloc;              /* defines malloc itself */
	bool own_entries;             /* functions by which to allocate and to release */
	bool own_operators;           /* defines operator new and delete */
	bool own_pools;               /* which report themselves, by limpet.h */
	bool is_nim;                  /* of a program without names: it speaks as Nim's do */
	const char *runtime;          /* static text: a language heap beside malloc; NULL: none */
	const char *runtime_note;
	const char *static_libc; /* static text: the C library linked in, NULL: none seen */
};

/* 0, -ENOEXEC, -EBADMSG or what reading answers. */
int limpet_program_read(int fd, struct limpet_program *ret_program);

/* Whether functions of these names are all there is to the allocator: a language's own heap has
 * none.
 */
bool limpet_allocator_has_entries(const struct limpet_program *program);

/* Name of the allocator ("jemalloc") whose shared library has this path, or NULL. Such a library is
 * reached through slots like any other: limpet follows it. */
const char *limpet_allocator_of_library(const char *path);
/* Name of the garbage collector whose library has this path, or NULL. It allocates from the kernel,
 * and its blocks end without a call: limpet does not follow it. */
const char *limpet_garbage_collector_of_library(const char *path);
/* The language runtime whose library has this path, or NULL; *ret_note says what limpet sees. */
const char *limpet_runtime_of_library(const char *path, const char **ret_note);

/* Resident memory of `pid` that no followed allocator can account for, when its main allocator is
 * out of reach: resident anonymous memory without [heap], stacks, glibc's arenas and the modules'
 * own data. An upper bound: large blocks that libc maps one by one are in it. 0 or -errno. */
int limpet_unseen_rss(pid_t pid, uint64_t *ret_unseen_bytes, uint64_t *ret_rss_bytes);

#endif
