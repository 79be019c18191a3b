/* What a process's resident memory is, by owner, as `limpet explain` finds it: a trace has it from
 * before and after the capture. */
#ifndef LIMPET_COMMON_RESIDENT_ACCOUNT_H
#define LIMPET_COMMON_RESIDENT_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of more, a capture takes no account: the kernel would hold the lock against mmap(2) for too long,
 * 15 ms for each GiB of a mapping. */
#define LIMPET_RESIDENT_BYTES_MAX ((uint64_t)4 << 30)
/* A trace with more rows, or longer texts, is damaged. */
#define LIMPET_RESIDENT_ROWS_MAX 1040u
#define LIMPET_RESIDENT_KIND_BYTES 32u
#define LIMPET_RESIDENT_OWNER_BYTES 96u

struct limpet_resident_row {
	char kind[LIMPET_RESIDENT_KIND_BYTES];   /* explain/accounts.h: LIMPET_KIND_... */
	char owner[LIMPET_RESIDENT_OWNER_BYTES]; /* the program may have chosen it */
	uint64_t bytes;
	uint64_t count; /* of arenas, stacks, mappings...; 0: does not apply */
	bool free_known;
	uint64_t free_bytes; /* resident and free inside of the allocator, or unused */
};

struct limpet_resident_account {
	bool known;
	uint64_t rss_bytes;               /* the sum of the rows */
	uint64_t trimmed_bytes;           /* that malloc_trim(0) would give back; 0: unknown */
	struct limpet_resident_row *rows; /* owned; the largest first */
	size_t count;
};

#endif
