/* The build-id of an ELF file, read by ourselves: it decides which file is opened, and so is read
 * with all rights, of files that somebody else may have written. Bounded reads, nothing mapped. */
#ifndef LIMPET_ANALYZER_SYMBOLS_BUILD_ID_H
#define LIMPET_ANALYZER_SYMBOLS_BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_BUILD_ID_ROOM 64

/* 0, and 0 bytes where it has none, or is not of this machine's kind; -ENOEXEC: no ELF file. */
int limpet_build_id_read(int fd, uint8_t ret_id[LIMPET_BUILD_ID_ROOM],
			 size_t *ret_bytes) LIMPET_MUST_CHECK;

#endif
