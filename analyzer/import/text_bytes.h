/* The bytes of a file that may be compressed, by gzip or zstd: recognized by its first bytes. */
#ifndef LIMPET_ANALYZER_IMPORT_TEXT_BYTES_H
#define LIMPET_ANALYZER_IMPORT_TEXT_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* A file may hold this much, and so many times its own size in addition. A variable, for tests. */
extern uint64_t limpet_text_bytes_most;
#define LIMPET_TEXT_BYTES_TIMES 1000u

struct limpet_text_bytes;

/* Reads the file from its beginning, `file_bytes` of it. `fd` must outlive it, and its offset is
 * not used. -ENOMEM. */
int limpet_text_bytes_new(int fd, uint64_t file_bytes,
			  struct limpet_text_bytes **ret_bytes) LIMPET_MUST_CHECK;
void limpet_text_bytes_free(struct limpet_text_bytes *bytes);

/* A limpet_text_read_fn. -EBADMSG: what follows is damaged or missing; -EFBIG: it is too much. */
int64_t limpet_text_bytes_read(void *bytes, void *ret, size_t room);

#endif
