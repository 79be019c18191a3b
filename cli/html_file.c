#include "cli/html_file.h"

#include <errno.h>
#include <string.h>
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

int limpet_html_file_open(const char *command, const char *path, bool force,
			  struct limpet_html_file *ret_page, struct limpet_err *err)
{
	struct limpet_html_file page = {.path = path};
	int result;

	if (!force && strcmp(path, "-") && access(path, F_OK) == 0) {
		limpet_err_set(err, -EEXIST, "cannot write '%s': %s", path, strerror(EEXIST));
		limpet_err_hint(err, "limpet %s -f overwrites it, -o OUT writes another", command);
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
