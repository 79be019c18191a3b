#include "injector/sealed.h"

#include <errno.h>
#include <string.h>

#include "injector/memfd.h"
#include "injector/proc.h"

static bool maps_ours(pid_t pid)
{
	struct limpet_maps maps;
	bool found = false;

	if (limpet_proc_maps_read(pid, &maps) < 0)
		return false;
	for (size_t i = 0; i < maps.count && !found; i++)
		found = limpet_memfd_is_ours(maps.list[i].path);
	limpet_proc_maps_done(&maps);
	return found;
}

bool limpet_sealed_check(pid_t pid)
{
	static const char flags[] = "VmFlags:", sealed[] = " sl ";
	LIMPET_FREE char *text = NULL;
	char *rest = NULL;
	bool ours = false;
	size_t bytes;

	/* Most have none, and then the long list need not be made. */
	if (!maps_ours(pid) || limpet_proc_file_read(pid, "smaps", &text, &bytes) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *name = strchr(line, '/');

		/* Keys begin with a capital, a mapping with its address in small hex. */
		if (*line < 'A' || *line > 'Z')
			ours = name && limpet_memfd_is_ours(name);
		else if (ours && !strncmp(line, flags, strlen(flags)) && strstr(line, sealed))
			return true;
	}
	return false;
}

int limpet_sealed_explain(pid_t pid, struct limpet_err *err)
{
	limpet_err_set(err, -EPERM,
		       "process %d has sealed limpet's memory by mseal(2): it stays, unused, until "
		       "the program ends",
		       pid);
	limpet_err_hint(err, "start the program anew to capture it again");
	return -EPERM;
}
