#include "cli/html_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".limpet"

char *limpet_html_file_name(const char *trace, const char *suffix)
{
	size_t length = strlen(trace), old_suffix = strlen(SUFFIX);
	char *name;

	if (length > old_suffix && !strcmp(trace + length - old_suffix, SUFFIX))
		length -= old_suffix;
	return asprintf(&name, "%.*s%s", (int)length, trace, suffix) < 0 ? NULL : name;
}

/* An earlier page, an empty file, or no regular file at all. */
static bool may_replace(const char *path)
{
	static const char begin[] = "<!doctype html>";
	char text[sizeof(begin) - 1];
	LIMPET_CLOSE int fd = -1;
	struct stat file;

	if (stat(path, &file) < 0 || !S_ISREG(file.st_mode) || !file.st_size)
		return true;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text)) == (ssize_t)sizeof(text) &&
	       !strncasecmp(text, begin, sizeof(text));
}

int limpet_html_file_open(const char *path, struct limpet_html_file *ret_page,
			  struct limpet_err *err)
{
	struct limpet_html_file page = {.path = path};
	int result;

	if (strcmp(path, "-") && !may_replace(path)) {
		limpet_err_set(err, -EEXIST, "cannot write '%s': it exists, and is no page", path);
		limpet_err_hint(err, "-o OUT writes another file");
		return -EEXIST;
	}
	result = limpet_export_sink_open(path, stdout, &page.sink, err);
	if (result < 0)
		return result;
	*ret_page = page;
	return 0;
}

int limpet_html_file_close(struct limpet_html_file *page, int result, struct limpet_err *err)
{
	const bool is_file = page->sink.path;
	int closed = limpet_export_sink_close(&page->sink, result >= 0, result < 0 ? NULL : err);

	if (result < 0)
		return limpet_err_set(err, result, "cannot write '%s': %s", page->path,
				      strerror(-result));
	if (closed == 0 && is_file)
		printf("%s\n", page->path);
	return closed;
}
