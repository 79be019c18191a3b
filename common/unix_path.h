/* Unix sockets that have a path, of any length. */
#ifndef LIMPET_COMMON_UNIX_PATH_H
#define LIMPET_COMMON_UNIX_PATH_H

#include <sys/un.h>

#include "common/err.h"

struct limpet_unix_path {
	struct sockaddr_un address;
	int dir_fd;       /* of its directory, which the address names */
	const char *name; /* in that directory; points into the path */
};

/* Opens the directory of `path`, which must stay valid. 0 or -errno: -ENAMETOOLONG, -EINVAL (it
 * ends with a slash), or those of open(2). Close with limpet_unix_path_done(). */
int limpet_unix_path_open(const char *path, struct limpet_unix_path *ret) LIMPET_MUST_CHECK;
void limpet_unix_path_done(struct limpet_unix_path *path);

#endif
