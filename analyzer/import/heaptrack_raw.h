/* heaptrack's raw files have addresses instead of names: its own program heaptrack_interpret, which
 * belongs to each of its packages, reads the files of the modules that they name. */
#ifndef LIMPET_ANALYZER_IMPORT_HEAPTRACK_RAW_H
#define LIMPET_ANALYZER_IMPORT_HEAPTRACK_RAW_H

#include <stdint.h>
#include <sys/stat.h>

#include "analyzer/import/text_lines.h"
#include "common/err.h"

struct limpet_heaptrack_raw;

/* Starts it on the bytes that `read` returns; they are taken as it asks for them. As root it runs
 * as the owner of the file: whoever made the file chose what it reads. -ENOENT, with a message: it
 * is not on this machine. */
int limpet_heaptrack_raw_start(const struct stat *file, limpet_text_read_fn *read, void *context,
			       struct limpet_heaptrack_raw **ret_raw,
			       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Ends it, if it has not ended. */
void limpet_heaptrack_raw_free(struct limpet_heaptrack_raw *raw);

/* A limpet_text_read_fn: what it writes. -EBADMSG if it failed, -ETIMEDOUT if it neither reads nor
 * writes for two minutes. */
int64_t limpet_heaptrack_raw_read(void *raw, void *ret, size_t room);

#endif
