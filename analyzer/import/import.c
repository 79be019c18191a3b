#include "analyzer/import/import.h"

#include <string.h>
#include <sys/stat.h>

#include "analyzer/import/heaptrack_file.h"
#include "analyzer/import/heaptrack_raw.h"
#include "analyzer/import/text_bytes.h"

/* What is enough to recognize a file. */
#define HEAD_BYTES 64u

/* Whether it begins as a file of heaptrack does. -EBADMSG: it is compressed, and damaged where it
 * begins. */
static int recognize(int fd, uint64_t file_bytes)
{
	struct limpet_text_bytes *bytes;
	char head[HEAD_BYTES];
	size_t have = 0;
	int64_t got;
	int code = limpet_text_bytes_new(fd, file_bytes, &bytes);

	if (code < 0)
		return code;
	do {
		got = limpet_text_bytes_read(bytes, head + have, sizeof(head) - have);
		have += got > 0 ? (size_t)got : 0;
	} while (got > 0 && have < sizeof(head));
	limpet_text_bytes_free(bytes);
	return got < 0 && !have ? (int)got : limpet_heaptrack_begins(head, have);
}

/* The same, from the beginning again. */
static int read_text(limpet_text_read_fn *read, void *context, const char *path,
		     struct limpet_imported *ret, struct limpet_err *err)
{
	struct limpet_text_lines lines;
	int kind = limpet_text_lines_init(&lines, read, context);

	if (kind < 0)
		return limpet_err_set(err, kind, "out of memory");
	kind = limpet_heaptrack_read(&lines, path, ret, err);
	limpet_text_lines_done(&lines);
	return kind;
}

static int read_raw(int fd, const struct stat *file, const char *path, struct limpet_imported *ret,
		    struct limpet_err *err)
{
	struct limpet_text_bytes *bytes;
	struct limpet_heaptrack_raw *raw;
	int kind = limpet_text_bytes_new(fd, (uint64_t)file->st_size, &bytes);

	if (kind < 0)
		return limpet_err_set(err, kind, "cannot read '%s': %s", path, strerror(-kind));
	kind = limpet_heaptrack_raw_start(file, limpet_text_bytes_read, bytes, &raw, err);
	if (kind == 0) {
		kind = read_text(limpet_heaptrack_raw_read, raw, path, ret, err);
		limpet_heaptrack_raw_free(raw);
	}
	limpet_text_bytes_free(bytes);
	if (kind == LIMPET_HEAPTRACK_RAW || kind == -EBADMSG)
		return limpet_err_set(err, -EBADMSG, "heaptrack_interpret cannot read '%s'", path);
	return kind;
}

int limpet_import(int fd, const char *path, struct limpet_imported *ret, struct limpet_err *err)
{
	struct limpet_text_bytes *bytes;
	struct stat file;
	int kind;

	if (fstat(fd, &file) < 0)
		return limpet_err_set(err, -errno, "cannot read '%s': %s", path, strerror(errno));
	kind = recognize(fd, (uint64_t)file.st_size);
	if (kind == 0)
		return 0;
	if (kind == -EBADMSG)
		return limpet_err_set(err, kind,
				      "'%s' is compressed, and damaged or cut short: nothing of it "
				      "can be read",
				      path);
	if (kind > 0)
		kind = limpet_text_bytes_new(fd, (uint64_t)file.st_size, &bytes);
	if (kind < 0)
		return limpet_err_set(err, kind, "cannot read '%s': %s", path, strerror(-kind));
	kind = read_text(limpet_text_bytes_read, bytes, path, ret, err);
	limpet_text_bytes_free(bytes);
	if (kind == LIMPET_HEAPTRACK_RAW)
		kind = read_raw(fd, &file, path, ret, err);
	return kind < 0 ? kind : 1;
}
