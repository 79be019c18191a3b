#include "explain/tmpfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

void limpet_tmpfs_done(struct limpet_tmpfs *mounts)
{
	free(mounts->list);
	*mounts = (struct limpet_tmpfs){0};
}

static uint64_t number(uint32_t major, uint32_t minor)
{
	return (uint64_t)major << 32 | minor;
}

static int compare(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* The third word of the line, two numbers with a colon. */
static bool parse_device(const char *line, uint64_t *ret_device)
{
	unsigned long major, minor;
	char *at = NULL;

	(void)strtoul(line, &at, 10);
	(void)strtoul(at, &at, 10);
	major = strtoul(at, &at, 10);
	if (*at != ':' || major > UINT32_MAX)
		return false;
	minor = strtoul(at + 1, &at, 10);
	if (*at != ' ' || minor > UINT32_MAX)
		return false;
	*ret_device = number((uint32_t)major, (uint32_t)minor);
	return true;
}

int limpet_tmpfs_parse(const char *text, struct limpet_tmpfs *ret_mounts)
{
	const char *type = strstr(text, " - tmpfs ");
	struct limpet_tmpfs mounts = {0};

	for (const char *line = text, *end; *line; line = end + (*end == '\n')) {
		uint64_t device;

		/* Of this line, or of one of the next. */
		if (type && type < line)
			type = strstr(line, " - tmpfs ");
		end = strchrnul(line, '\n');
		if (!type)
			break;
		if (type > end || !parse_device(line, &device))
			continue;
		if (limpet_reserve(&mounts.list, &mounts.capacity, mounts.count + 1,
				   sizeof(*mounts.list)) < 0 ||
		    !mounts.list) {
			limpet_tmpfs_done(&mounts);
			return -ENOMEM;
		}
		mounts.list[mounts.count++] = device;
	}
	if (mounts.count)
		qsort(mounts.list, mounts.count, sizeof(*mounts.list), compare);
	*ret_mounts = mounts;
	return 0;
}

int limpet_tmpfs_read(const struct limpet_target *target, struct limpet_tmpfs *ret_mounts)
{
	LIMPET_FREE char *text = NULL;
	size_t bytes;

	if (limpet_proc_file_read(target->pid, "mountinfo", &text, &bytes) < 0)
		return 0;
	return limpet_tmpfs_parse(text, ret_mounts);
}

bool limpet_tmpfs_has(const struct limpet_tmpfs *mounts, uint32_t major, uint32_t minor)
{
	const uint64_t wanted = number(major, minor);

	return mounts->count &&
	       bsearch(&wanted, mounts->list, mounts->count, sizeof(*mounts->list), compare);
}
