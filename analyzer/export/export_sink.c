#include "analyzer/export/export_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "analyzer/export/unfinished.h"

/* ------------------------------------------------------------------ zstd, as a stdio stream */

struct packer {
	FILE *under;
	ZSTD_CCtx *context;
	uint8_t buffer[1 << 16];
};

static int pack(struct packer *packer, const char *bytes, size_t count, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {bytes, count, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {packer->buffer, sizeof(packer->buffer), 0};

		left = ZSTD_compressStream2(packer->context, &out, &in, end);
		if (ZSTD_isError(left) ||
		    fwrite(packer->buffer, 1, out.pos, packer->under) != out.pos)
			return -EIO;
	} while (in.pos < in.size || (end == ZSTD_e_end && left));
	return 0;
}

static ssize_t write_zstd(void *cookie, const char *bytes, size_t count)
{
	return pack(cookie, bytes, count, ZSTD_e_continue) < 0 ? 0 : (ssize_t)count;
}

static int close_zstd(void *cookie)
{
	struct packer *packer = cookie;
	int code = pack(packer, NULL, 0, ZSTD_e_end);

	if (fclose(packer->under))
		code = -EIO;
	ZSTD_freeCCtx(packer->context);
	free(packer);
	return code < 0 ? EOF : 0;
}

static FILE *open_zstd(FILE *under)
{
	const cookie_io_functions_t functions = {.write = write_zstd, .close = close_zstd};
	struct packer *packer = calloc(1, sizeof(*packer));
	FILE *file = NULL;

	if (!packer)
		return NULL;
	packer->under = under;
	packer->context = ZSTD_createCCtx();
	if (packer->context) {
		ZSTD_CCtx_setParameter(packer->context, ZSTD_c_checksumFlag, 1);
		file = fopencookie(packer, "w", functions);
	}
	if (!file) {
		ZSTD_freeCCtx(packer->context);
		free(packer);
	}
	return file;
}

/* ------------------------------------------------------------------ gzip, as a stdio stream */

static ssize_t write_gzip(void *cookie, const char *bytes, size_t count)
{
	return gzwrite(cookie, bytes, (unsigned)count) == (int)count ? (ssize_t)count : 0;
}

static int close_gzip(void *cookie)
{
	return gzclose(cookie) == Z_OK ? 0 : EOF;
}

static FILE *open_gzip(FILE *under)
{
	const cookie_io_functions_t functions = {.write = write_gzip, .close = close_gzip};
	int fd = fcntl(fileno(under), F_DUPFD_CLOEXEC, 3);
	gzFile gz = fd >= 0 ? gzdopen(fd, "wb") : NULL;
	FILE *file = gz ? fopencookie(gz, "w", functions) : NULL;

	if (!file && gz)
		gzclose(gz);
	else if (!file && fd >= 0)
		close(fd);
	if (file)
		fclose(under);
	return file;
}

/* ------------------------------------------------------------------ files */

static bool has_suffix(const char *path, const char *suffix)
{
	size_t length = strlen(path), wanted = strlen(suffix);

	return length > wanted && !strcmp(path + length - wanted, suffix);
}

static void forget(struct limpet_export_sink *sink)
{
	limpet_unfinished_drop(sink->temporary);
	free(sink->temporary);
	free(sink->path);
	*sink = (struct limpet_export_sink){0};
}

static int fail(struct limpet_export_sink *sink, const char *path, int code, struct limpet_err *err)
{
	limpet_err_set(err, code, "cannot write '%s': %s", path, strerror(-code));
	if (sink->temporary)
		unlink(sink->temporary);
	forget(sink);
	return code;
}

int limpet_export_sink_open(const char *path, FILE *standard, struct limpet_export_sink *ret_sink,
			    struct limpet_err *err)
{
	struct limpet_export_sink sink = {0};
	struct stat status;
	bool beside;
	FILE *packed = NULL;
	int fd;

	if (!strcmp(path, "-")) {
		*ret_sink = (struct limpet_export_sink){.file = standard};
		return 0;
	}
	/* A pipe or a device is written to, not replaced. */
	beside = stat(path, &status) < 0 || S_ISREG(status.st_mode);
	sink.path = strdup(path);
	if (!sink.path || (beside && asprintf(&sink.temporary, "%s.XXXXXX", path) < 0)) {
		sink.temporary = NULL;
		return fail(&sink, path, -ENOMEM, err);
	}
	fd = beside ? limpet_unfinished_open(sink.temporary) : open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		int code = beside ? fd : limpet_errno();

		free(sink.temporary);
		sink.temporary = NULL;
		return fail(&sink, path, code, err);
	}
	sink.file = fdopen(fd, "w");
	if (!sink.file) {
		close(fd);
		return fail(&sink, path, -ENOMEM, err);
	}
	if (has_suffix(path, ".zst"))
		packed = open_zstd(sink.file);
	else if (has_suffix(path, ".gz"))
		packed = open_gzip(sink.file);
	if (!packed && (has_suffix(path, ".zst") || has_suffix(path, ".gz"))) {
		fclose(sink.file);
		return fail(&sink, path, -ENOMEM, err);
	}
	if (packed)
		sink.file = packed;
	*ret_sink = sink;
	return 0;
}

int limpet_export_sink_close(struct limpet_export_sink *sink, bool keep, struct limpet_err *err)
{
	bool bad;
	int code = 0;

	if (!sink->path) /* the caller's */
		return 0;
	errno = 0;
	bad = fflush(sink->file) || ferror(sink->file);
	if (bad)
		code = limpet_errno();
	if (fclose(sink->file) && code == 0)
		code = limpet_errno();
	if (code == 0 && keep && sink->temporary && rename(sink->temporary, sink->path) < 0)
		code = limpet_errno();
	if (code < 0)
		return fail(sink, sink->path, code, err);
	if (!keep && sink->temporary)
		unlink(sink->temporary);
	forget(sink);
	return 0;
}
