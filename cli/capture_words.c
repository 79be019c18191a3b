#include "cli/capture_words.h"

#include <stdlib.h>
#include <unistd.h>

const char *limpet_capture_end_words(enum limpet_end end)
{
	switch (end) {
	case LIMPET_END_TARGET_EXIT:
		return "the program ended";
	case LIMPET_END_TARGET_KILLED:
		return "the program was killed";
	case LIMPET_END_TARGET_EXEC:
		return "the program executed another";
	case LIMPET_END_DISK_FULL:
		return "the disk is full, or nearly so: the trace ends here";
	case LIMPET_END_SIZE_LIMIT:
		return "the trace cannot be kept below its limit of size";
	case LIMPET_END_COLLECTOR_LOST:
		return "the program closed limpet's descriptor";
	default:
		return NULL;
	}
}

void limpet_capture_find_owner(uid_t *uid, gid_t *gid)
{
	const char *sudo_uid = getenv("SUDO_UID"), *sudo_gid = getenv("SUDO_GID");

	*uid = geteuid();
	*gid = getegid();
	if (*uid == 0 && sudo_uid && sudo_gid) {
		*uid = (uid_t)strtoul(sudo_uid, NULL, 10);
		*gid = (gid_t)strtoul(sudo_gid, NULL, 10);
	}
}
