/* Which pages of a process exist: present, or swapped out. A few pages at a time, also while the
 * process is stopped; pages.h goes through whole mappings. */
#ifndef LIMPET_INJECTOR_PROC_PAGEMAP_H
#define LIMPET_INJECTOR_PROC_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* A descriptor, or -errno. */
int limpet_pagemap_open(pid_t pid) LIMPET_MUST_CHECK;
/* Looks at the beginning of [address, address + bytes). Returns how many bytes of it are in pages
 * that all exist, or that all do not; -errno: it cannot be known. */
ssize_t limpet_pagemap_run(int pagemap, uint64_t address, size_t bytes, bool *ret_exist);

#endif
