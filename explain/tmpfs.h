/* Which devices are those of a tmpfs, by the mount table. */
#ifndef LIMPET_EXPLAIN_TMPFS_H
#define LIMPET_EXPLAIN_TMPFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

/* Begins as all zeros. */
struct limpet_tmpfs {
	uint64_t *list; /* numbers of devices, sorted */
	size_t count, capacity;
};
void limpet_tmpfs_done(struct limpet_tmpfs *mounts);
/* Of the process; none if its table cannot be read. 0 or -ENOMEM. */
int limpet_tmpfs_read(const struct limpet_target *target,
		      struct limpet_tmpfs *ret_mounts) LIMPET_MUST_CHECK;
bool limpet_tmpfs_has(const struct limpet_tmpfs *mounts, uint32_t major, uint32_t minor);

/* The same from a text, "36 35 0:42 / /run rw - tmpfs tmpfs rw" and so on; public for tests. */
int limpet_tmpfs_parse(const char *text, struct limpet_tmpfs *ret_mounts) LIMPET_MUST_CHECK;

#endif
