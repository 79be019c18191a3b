#include "cli/mark_times.h"

#include <errno.h>
#include <string.h>

#include "common/units.h"

int limpet_mark_times_read(struct limpet_mark_times *times, struct limpet_err *err)
{
	int code = times->reader ? 0 : limpet_trace_reader_open(times->path, &times->reader, err);

	if (code < 0)
		return code;
	times->mark_count = limpet_trace_reader_marks(times->reader, &times->marks);
	return 0;
}

void limpet_mark_times_done(struct limpet_mark_times *times)
{
	limpet_trace_reader_free(times->reader);
	times->reader = NULL;
	times->mark_count = 0;
}

int limpet_mark_times_find(const struct limpet_mark_times *times, const char *text,
			   uint64_t *ret_ns)
{
	if (limpet_units_parse_duration(text, ret_ns) == 0)
		return 0;
	for (size_t i = 0; i < times->mark_count; i++)
		if (!strcmp(times->marks[i].name, text)) {
			*ret_ns = times->marks[i].time_ns;
			return 0;
		}
	return -ENOENT;
}

int limpet_mark_times_find_range(const struct limpet_mark_times *times, const char *text,
				 char separator, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	LIMPET_FREE char *copy = strdup(text);
	int code = -EINVAL;

	if (!copy)
		return -ENOMEM;
	for (char *at = strchr(copy, separator); at; at = strchr(at + 1, separator)) {
		uint64_t from_ns = 0, to_ns = UINT64_MAX;
		bool found;

		*at = '\0';
		found = (!copy[0] || limpet_mark_times_find(times, copy, &from_ns) == 0) &&
			(!at[1] || limpet_mark_times_find(times, at + 1, &to_ns) == 0);
		*at = separator;
		if (found && to_ns <= from_ns)
			return -ERANGE;
		if (found) {
			*ret_from_ns = from_ns;
			*ret_to_ns = to_ns;
			return 0;
		}
		code = -ENOENT;
	}
	return code;
}

void limpet_mark_times_hint(const struct limpet_mark_times *times, struct limpet_err *err)
{
	char list[400] = "";
	size_t used = 0;

	if (!times->mark_count) {
		limpet_err_hint(err,
				"a time is 90s or 10m; it has no marks, which `limpet mark PID "
				"NAME` sets");
		return;
	}
	for (size_t i = 0; i < times->mark_count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 times->marks[i].name);
	limpet_err_hint(err, "a time is 90s or 10m; its marks: %s%s", list,
			used >= sizeof(list) ? "..." : "");
}
