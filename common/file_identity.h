/* What tells the builds of an ELF file apart that has no build-id: its size and the time of its
 * last change, or a checksum of the code and constants that a program has in memory, and of where
 * they lie there. Stripping changes the former, not the latter.
 *
 * Of more than LIMPET_FILE_IDENTITY_BYTES the checksum is that of samples: what moves code, and so
 * gives its names to others, changes the code everywhere. */
#ifndef LIMPET_COMMON_FILE_IDENTITY_H
#define LIMPET_COMMON_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/err.h"

#define LIMPET_FILE_IDENTITY_BYTES (4u << 20)

struct limpet_file_identity {
	bool has_status, has_checksum; /* neither: unknown */
	uint64_t bytes;
	uint64_t changed_ns; /* st_mtim */
	uint32_t checksum;
};

void limpet_file_identity_set_status(struct limpet_file_identity *identity,
				     const struct stat *status);
/* Returns 0, or -ENOEXEC: not an ELF file with code, 64-bit and of this machine's byte order; or
 * the error of reading. Reads are bounded, and nothing is mapped. */
int limpet_file_identity_checksum(int fd, uint32_t *ret_checksum) LIMPET_MUST_CHECK;

/* Whether the open file is that one, by its checksum if there is one. `status` is that of the file
 * itself: `fd` may be a copy (open_file.h). */
bool limpet_file_identity_is_of(const struct limpet_file_identity *identity, int fd,
				const struct stat *status);

#endif
