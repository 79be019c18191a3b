/* The list of accounts of an explanation. */
#ifndef LIMPET_EXPLAIN_ACCOUNTS_H
#define LIMPET_EXPLAIN_ACCOUNTS_H

#include "explain/explanation.h"

/* Adds to the account of this kind and owner, which it makes if there is none, and counts one more
 * thing in it if `things` is 1. A failure is sticky: see limpet_accounts_sort(). */
struct limpet_accounts {
	struct limpet_explanation *explanation;
	int error;
};
void limpet_accounts_add(struct limpet_accounts *accounts, const char *kind, const char *owner,
			 uint64_t bytes, unsigned things);
/* The account, or NULL. Valid until the next one is added. */
struct limpet_account *limpet_accounts_find(const struct limpet_explanation *explanation,
					    const char *kind, const char *owner);
/* Sum of the bytes of all accounts of this kind. */
uint64_t limpet_accounts_bytes(const struct limpet_explanation *explanation, const char *kind);
/* The largest first, the unknown one at the end; drops empty ones. Returns the first error. */
int limpet_accounts_sort(struct limpet_accounts *accounts);

/* Kinds. */
#define LIMPET_KIND_GLIBC_MAIN "glibc-main-heap"
#define LIMPET_KIND_GLIBC_ARENAS "glibc-arenas"
#define LIMPET_KIND_GLIBC_MMAPPED "glibc-mmapped"
#define LIMPET_KIND_BREAK "program-break"
#define LIMPET_KIND_STACKS "thread-stacks"
#define LIMPET_STACKS_NAMED "thread stacks: " /* and the name of the threads */
#define LIMPET_OWNER_ENDED "stacks of threads that have ended"
#define LIMPET_OWNER_UNJOINED "stacks of threads that ended and were never joined"
#define LIMPET_KIND_MAIN_STACK "main-stack"
#define LIMPET_KIND_DATA "private-data"
#define LIMPET_OWNER_WRITTEN "written pages of other files"
#define LIMPET_KIND_FILES "file-pages"
#define LIMPET_KIND_DATA_FILES "mapped-file"
#define LIMPET_KIND_MEMFD "memfd"
#define LIMPET_KIND_SHM "shm"
#define LIMPET_KIND_TMPFS "tmpfs"
#define LIMPET_KIND_SYSV "sysv"
#define LIMPET_KIND_SHARED_ANONYMOUS "shared-anonymous"
#define LIMPET_KIND_DEVICE "device"
#define LIMPET_KIND_NAMED "named"
#define LIMPET_KIND_CODE "jit-code"
#define LIMPET_KIND_KERNEL "kernel"
#define LIMPET_KIND_LIMPET "limpet"
#define LIMPET_KIND_UNKNOWN "unknown"
#define LIMPET_OWNER_UNKNOWN "anonymous memory of no known owner"

#endif
