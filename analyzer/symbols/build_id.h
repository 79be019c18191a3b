/* Reads the build-id of an ELF file without a library: it decides which file is opened, so it is
 * read unconfined, from files that others may have written. Reads are bounded, and nothing is
 * mapped. */
#ifndef LIMPET_ANALYZER_SYMBOLS_BUILD_ID_H
#define LIMPET_ANALYZER_SYMBOLS_BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_BUILD_ID_ROOM 64

/* Returns 0, with 0 bytes if the file has none, or is not 64-bit or of this machine's byte order.
 * -ENOEXEC: not an ELF file. */
int limpet_build_id_read(int fd, uint8_t ret_id[LIMPET_BUILD_ID_ROOM],
			 size_t *ret_bytes) LIMPET_MUST_CHECK;

#endif
