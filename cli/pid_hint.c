#include "cli/pid_hint.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base_name.h"
#include "common/units.h"
#include "injector/proc/proc.h"

struct named {
	pid_t pid;
	uint64_t rss_bytes;
};

static int by_rss(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* By its own name, of which the kernel keeps 15 bytes, or that of its file. */
static bool is_named(pid_t pid, const char *name, const struct limpet_proc_status *status)
{
	char path[PATH_MAX];

	return !strcmp(status->name, name) ||
	       (strlen(status->name) == 15 && !strncmp(status->name, name, 15)) ||
	       (limpet_proc_executable(pid, path, sizeof(path)) >= 0 &&
		!strcmp(limpet_base_name(path), name));
}

/* The processes of that name, the largest first; malloc'ed. */
static size_t find_named(const char *name, struct named **ret_list)
{
	LIMPET_FREE pid_t *pids = NULL;
	const int all = limpet_proc_pids(&pids);
	size_t count = 0;

	*ret_list = calloc(all > 0 ? (size_t)all : 1, sizeof(**ret_list));
	for (int i = 0; i < all && *ret_list; i++) {
		struct limpet_proc_status status;

		if (pids[i] == getpid() || limpet_proc_status_read(pids[i], &status) < 0 ||
		    status.kernel_thread || !is_named(pids[i], name, &status))
			continue;
		(*ret_list)[count++] = (struct named){pids[i], status.rss_bytes};
	}
	if (count)
		qsort(*ret_list, count, sizeof(**ret_list), by_rss);
	return count;
}

void limpet_hint_pid(const char *text, struct limpet_err *err)
{
	LIMPET_FREE struct named *list = NULL;
	const size_t most = 5, count = text[0] ? find_named(text, &list) : 0;
	char words[256] = "";
	uint64_t highest;
	size_t used = 0;

	for (size_t i = 0; i < count && i < most; i++) {
		char rss[LIMPET_UNITS_TEXT];

		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%d (%s)",
					 i ? ", " : "", list[i].pid,
					 limpet_units_format_bytes(rss, list[i].rss_bytes));
	}
	if (count)
		limpet_err_hint(err, "process%s of that name: %s%s", count == 1 ? "" : "es", words,
				count > most ? ", ..." : "");
	else if (text[0] && !text[strspn(text, "0123456789")] &&
		 limpet_proc_number_read("sys/kernel/pid_max", &highest) == 0)
		limpet_err_hint(err, "process ids are from 1 to %" PRIu64, highest - 1);
	else
		limpet_err_hint(err, "find it with `pidof NAME` or `limpet doctor`");
}
