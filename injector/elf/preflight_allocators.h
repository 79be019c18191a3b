/* Finds out which allocators a program uses, by names: of symbols in its executable, of texts in a
 * stripped one, of the libraries that it has mapped. */
#ifndef LIMPET_INJECTOR_ELF_PREFLIGHT_ALLOCATORS_H
#define LIMPET_INJECTOR_ELF_PREFLIGHT_ALLOCATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "injector/elf/elf_file.h"
#include "injector/proc/proc.h"

struct limpet_target;

/* What an executable contains. Plain data, so that it can be cached by (device, inode). */
struct limpet_program {
	unsigned bits;                /* 32, 64 */
	bool native, has_symtab, cut; /* cut: it had too many symbols, or broken ones */
	char interpreter[128];        /* "": none */
	const char *own_allocator;    /* static text; NULL: none known to be linked in */
	bool own_malloc;              /* defines malloc itself */
	bool own_entries;             /* functions that allocate and release */
	bool own_operators;           /* defines operator new and delete */
	bool own_pools;               /* which report their blocks through limpet.h */
	bool is_nim;                  /* a program without names whose messages are Nim's */
	const char *runtime;          /* static text: a language's heap beside malloc; NULL: none */
	const char *runtime_note;
	const char *static_libc; /* static text: the C library that is linked in; NULL: not
				    recognized */
};

/* 0, -ENOEXEC, -EBADMSG or an error of reading. */
int limpet_program_read(int fd, struct limpet_program *ret_program);

/* Whether functions with known names are the whole allocator: the heap of a language has none. */
bool limpet_allocator_has_entries(const struct limpet_program *program);

/* Name of the allocator ("jemalloc") whose shared library has this path, or NULL. Such a library is
 * called through slots like any other, and limpet follows it. */
const char *limpet_allocator_of_library(const char *path);
/* Name of the garbage collector whose library has this path, or NULL. It gets memory from the
 * kernel and releases blocks without a call, so limpet does not follow it. */
const char *limpet_garbage_collector_of_library(const char *path);
/* The language runtime whose library has this path, or NULL; *ret_note says what limpet sees of it.
 */
const char *limpet_runtime_of_library(const char *path, const char **ret_note);
/* Whether its objects are never blocks of the allocator that the program uses. */
bool limpet_runtime_has_own_heap(const char *runtime);
/* What stands before its name in a sentence: "the ", or "". */
const char *limpet_runtime_article(const char *runtime);

/* Resident memory of the target that no followed allocator can account for, if its main allocator
 * is out of reach: resident anonymous memory without [heap], stacks, glibc's arenas and the
 * modules' data. An upper bound: it includes large blocks that libc maps one by one. 0 or -errno.
 */
int limpet_unseen_rss(const struct limpet_target *target, uint64_t *ret_unseen_bytes,
		      uint64_t *ret_rss_bytes);

#endif
