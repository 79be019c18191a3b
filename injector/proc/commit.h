/* Strict accounting of memory (vm.overcommit_memory=2): the kernel refuses a page of a file in
 * memory when it is first touched, by SIGBUS, if all that may be committed is. In other modes a
 * touch does not fail for that. */
#ifndef LIMPET_INJECTOR_PROC_COMMIT_H
#define LIMPET_INJECTOR_PROC_COMMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Also if the mode cannot be read. */
bool limpet_commit_is_strict(void);
/* If accounting is strict: gives a file in memory its pages, up to `bytes`, so that no touch of one
 * can fail. -ENOSPC: not that much may be committed; then it gets none. */
int limpet_commit_file(int file, uint64_t bytes) LIMPET_MUST_CHECK;
/* Sets the words for its -ENOSPC; returns that. */
int limpet_commit_explain(pid_t pid, struct limpet_err *err);

#endif
