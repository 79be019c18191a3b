/* Functions that the user names, of allocators that limpet does not know, and those that were found
 * without a name (injector/hidden).
 *
 * What the user names is a text of lines, each a function's name as linkers know it and a
 *signature; `#` begins a comment.
 *
 *	palloc      malloc(_, size)     # _ stands for an argument that does not matter
 *	pfree       free(p)
 *	allocator   arena               # whose those below are, for people
 *
 * The text is hostile input: bounded in every respect. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_LIST_H
#define LIMPET_INJECTOR_ELF_ENTRY_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "injector/elf/entry_names.h"

#define LIMPET_ENTRY_LIST_MAX 48u
#define LIMPET_ENTRY_LIST_NAME_BYTES 160u
#define LIMPET_ENTRY_LIST_OWNER_BYTES 48u

struct limpet_entry_list {
	struct limpet_entry_listed {
		char name[LIMPET_ENTRY_LIST_NAME_BYTES];
		char owner[LIMPET_ENTRY_LIST_OWNER_BYTES];
		struct limpet_entry_name what;
		/* A function that has no name is known by its place; inode 0: by its name. */
		struct limpet_entry_place {
			uint32_t dev_major, dev_minor;
			uint64_t inode;
			uint64_t value, bytes; /* in the file's own address space */
		} place;
	} list[LIMPET_ENTRY_LIST_MAX];
	size_t count;
};

/* -EINVAL with a message that begins with `source`:LINE, and a hint; *ret is untouched then. Each
 * allocator must have functions that allocate and that release. */
int limpet_entry_list_parse(const char *text, size_t bytes, const char *source,
			    struct limpet_entry_list *ret,
			    struct limpet_err *err) LIMPET_MUST_CHECK;
/* The same for a file; returns errors of reading it, too. */
int limpet_entry_list_read(const char *path, struct limpet_entry_list *ret,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

/* Index of the function of that name, or -1; `list` may be NULL. */
int limpet_entry_list_find(const struct limpet_entry_list *list, const char *name);

#endif
