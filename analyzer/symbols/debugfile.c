#include "analyzer/symbols/debugfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "analyzer/symbols/build_id.h"
#include "analyzer/symbols/debuginfod.h"
#include "common/base_name.h"
#include "common/open_file.h"

/* Where distributions put separate debug information. */
static const char system_debug_dir[] = "/usr/lib/debug";

/* Maximum that is read for a checksum: the file may be anybody's. */
#define CHECKSUM_MAX ((off_t)1 << 30)
#define CHECKSUM_STEP 65536u

/* Files of one directory whose build-ids are read. */
#define DIRECTORY_FILES_MAX 4096

/* 0 if `fd` is an ELF file of this build; -ESTALE: of another; -ENOEXEC: not an ELF file. A file
 * without a build-id is accepted only if none is required. */
static int check_build(int fd, const uint8_t *build_id, size_t build_id_bytes)
{
	uint8_t found[LIMPET_BUILD_ID_ROOM];
	size_t found_bytes;
	int result = limpet_build_id_read(fd, found, &found_bytes);

	if (result < 0 || !build_id_bytes)
		return result;
	return found_bytes == build_id_bytes && !memcmp(found, build_id, build_id_bytes) ? 0
											 : -ESTALE;
}

/* Whether it is the module's file, by the build-id if there is one. */
static int check_module(const struct limpet_debugfile_query *query, int fd,
			const struct stat *status)
{
	int result = check_build(fd, query->build_id, query->build_id_bytes);

	if (result < 0 || query->build_id_bytes || !query->identity)
		return result;
	return limpet_file_identity_is_of(query->identity, fd, status) ? 0 : -ESTALE;
}

/* `root`: that of the query if `path` is the target's, NULL if it is limpet's own. */
static int open_checked(const char *root, const char *path,
			const struct limpet_debugfile_query *query)
{
	struct stat status;
	LIMPET_CLOSE int fd = limpet_open_regular(root, path, 0, &status);
	int result;

	if (fd < 0)
		return fd == -EINVAL ? -ENOEXEC : fd;
	result = check_module(query, fd, &status);
	return result < 0 ? result : limpet_take_fd(&fd);
}

/* "ab/cdef0123.debug", or false if there is no usable build-id. */
static bool build_id_file(const struct limpet_debugfile_query *query, char *out, size_t bytes)
{
	size_t used;

	if (query->build_id_bytes < 2 || bytes < 2 * query->build_id_bytes + 8)
		return false;
	used = (size_t)snprintf(out, bytes, "%02x/", query->build_id[0]);
	for (size_t i = 1; i < query->build_id_bytes; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%02x", query->build_id[i]);
	snprintf(out + used, bytes - used, ".debug");
	return true;
}

static size_t count_user_dirs(const struct limpet_debugfile_query *query)
{
	size_t count = 0;

	while (query->debug_dirs && query->debug_dirs[count])
		count++;
	return count;
}

/* The debug directories one after another: those of the user, that of the target's root, limpet's
 * own. *ret_root: the root that it is in, NULL: limpet's own. */
static const char *debug_dir(const struct limpet_debugfile_query *query, size_t index,
			     const char **ret_root)
{
	size_t user = count_user_dirs(query);

	*ret_root = index == user ? query->root : NULL;
	if (query->debug_dirs && index < user)
		return query->debug_dirs[index];
	return index == user || (index == user + 1 && query->root) ? system_debug_dir : NULL;
}

/* Keeps the more informative error: another build rather than no file. */
static int worse(int so_far, int now)
{
	return so_far == -ESTALE || now == -ENOENT || now == -ENOTDIR ? so_far : now;
}

__attribute__((format(printf, 3, 4))) static int try_file(
	const struct limpet_debugfile_query *query, const char *root, const char *format, ...)
{
	LIMPET_FREE char *path = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&path, format, args);
	va_end(args);
	if (n < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return open_checked(root, path, query);
}

/* The module itself in the user's directories: an unstripped copy is preferred to the installed
 * one. Its build-id or identity must be known: a name alone proves nothing. */
static int find_user_module(const struct limpet_debugfile_query *query, const char *path)
{
	int so_far = -ENOENT;

	for (size_t i = 0; query->debug_dirs && query->debug_dirs[i]; i++) {
		int fd = try_file(query, NULL, "%s/%s", query->debug_dirs[i], path);

		if (fd < 0)
			fd = try_file(query, NULL, "%s/%s", query->debug_dirs[i],
				      limpet_base_name(path));
		if (fd >= 0)
			return fd;
		so_far = worse(so_far, fd);
	}
	return so_far;
}

/* The debug file instead of the module. */
static int find_debug_file(const struct limpet_debugfile_query *query, int so_far)
{
	const char *dir, *root;
	char id[160];

	if (!build_id_file(query, id, sizeof(id)))
		return so_far;
	for (size_t i = 0; (dir = debug_dir(query, i, &root)); i++) {
		int fd = try_file(query, root, "%s/.build-id/%s", dir, id);

		if (fd < 0 && query->debug_dirs)
			fd = try_file(query, root, "%s/%s", dir, id);
		if (fd >= 0)
			return fd;
		so_far = worse(so_far, fd);
	}
	return so_far;
}

/* A file from a server is checked like any other. */
static int fetch(const struct limpet_debugfile_query *query, char **ret_path)
{
	LIMPET_FREE char *path = NULL;
	int fd;

	if (!query->debuginfod)
		return -ENOENT;
	fd = limpet_debuginfod_fetch(query->debuginfod, query->build_id, query->build_id_bytes,
				     &path);
	if (fd >= 0 && check_build(fd, query->build_id, query->build_id_bytes) < 0) {
		close(fd);
		return -ENOENT;
	}
	if (fd >= 0)
		*ret_path = LIMPET_TAKE(path);
	return fd;
}

static int open_held(const struct limpet_debugfile_query *query)
{
	struct stat status;
	LIMPET_CLOSE int fd = limpet_open_named(query->fd, NULL, 0, &status);
	int result = fd;

	if (fd >= 0)
		result = check_module(query, fd, &status);
	return result < 0 ? result : limpet_take_fd(&fd);
}

/* The module at the path where its process had it. */
static int find_own(const struct limpet_debugfile_query *query, const char *path, int so_far)
{
	int fd;

	if (query->fd >= 0) {
		fd = open_held(query);
		if (fd >= 0)
			return fd;
		so_far = worse(so_far, fd);
	}
	if (path[0] != '/')
		return so_far;
	if (query->root) {
		fd = open_checked(query->root, path, query);
		if (fd >= 0)
			return fd;
		so_far = worse(so_far, fd);
	}
	/* In another root the same path may be another file. */
	if (!query->root || query->build_id_bytes || query->identity) {
		fd = open_checked(NULL, path, query);
		if (fd >= 0)
			return fd;
		so_far = worse(so_far, fd);
	}
	return so_far;
}

/* The query has no build-id: that of the module's own file, `own_fd`, tells whether a file of the
 * user is the same build. Returns that file and closes `own_fd`, or returns `own_fd`. */
static int prefer_user_module(const struct limpet_debugfile_query *query, const char *path,
			      int own_fd)
{
	struct limpet_debugfile_query known = *query;
	uint8_t id[LIMPET_BUILD_ID_ROOM];
	int fd = -ENOENT;

	known.build_id = id;
	known.identity = NULL;
	if (limpet_build_id_read(own_fd, id, &known.build_id_bytes) == 0 && known.build_id_bytes)
		fd = find_user_module(&known, path);
	if (fd < 0)
		return own_fd;
	close(own_fd);
	return fd;
}

static int explain(int code, const struct limpet_debugfile_query *query, struct limpet_err *err)
{
	switch (code) {
	case -ENOENT:
		limpet_err_set(err, code, "no file for '%s'", query->path);
		limpet_err_hint(
			err, "--debug-dir DIR names a directory that holds it or its debug file");
		break;
	case -ESTALE:
		if (!query->build_id_bytes && query->identity && !query->identity->has_status &&
		    !query->identity->has_checksum)
			return limpet_err_set(err, -ENODATA,
					      "'%s' is not read: it had no build-id, and the trace "
					      "does not say which build was captured",
					      query->path);
		limpet_err_set(err, code, "'%s' is of another build than the one captured",
			       query->path);
		limpet_err_hint(err,
				"--debug-dir DIR names a directory that holds the captured build");
		break;
	case -ENOEXEC:
		limpet_err_set(err, code, "'%s' is not an ELF file", query->path);
		break;
	case -ETIMEDOUT:
		return limpet_err_set(err, -EPROTO,
				      "'%s' is not read: its file system does not answer",
				      query->path);
	default:
		limpet_err_set(err, code, "cannot open '%s': %s", query->path, strerror(-code));
	}
	return code;
}

int limpet_debugfile_open_module(const struct limpet_debugfile_query *query, struct limpet_err *err)
{
	LIMPET_FREE char *path = strdup(query->path ? query->path : "");
	static const char deleted[] = " (deleted)";
	size_t length;
	int fd, result = -ENOENT;

	if (!path)
		return limpet_err_set(err, -ENOMEM, "no memory");
	length = strlen(path);
	if (length > sizeof(deleted) - 1 && !strcmp(path + length - sizeof(deleted) + 1, deleted))
		path[length - sizeof(deleted) + 1] = '\0';

	if (query->build_id_bytes || query->identity) {
		result = find_user_module(query, path);
		if (result >= 0)
			return result;
	}
	fd = find_own(query, path, result);
	if (fd >= 0)
		return query->build_id_bytes ? fd : prefer_user_module(query, path, fd);
	result = find_debug_file(query, fd);
	if (result < 0) {
		LIMPET_FREE char *ignored = NULL;

		fd = fetch(query, &ignored);
		result = fd >= 0 ? fd : result;
	}
	return result >= 0 ? result : explain(result, query, err);
}

/* ------------------------------------------------------------------ .gnu_debuglink */

/* Only for modules that have no build-id. */
static int file_checksum(int fd, uint32_t *ret_checksum)
{
	LIMPET_FREE uint8_t *buffer = malloc(CHECKSUM_STEP);
	uLong crc = 0;
	off_t offset = 0;
	ssize_t n;

	if (!buffer)
		return -ENOMEM;
	do {
		n = pread(fd, buffer, CHECKSUM_STEP, offset);
		if (n < 0)
			return -errno;
		crc = crc32_z(crc, buffer, (size_t)n);
		offset += n;
		if (offset > CHECKSUM_MAX)
			return -EFBIG;
	} while (n);
	*ret_checksum = (uint32_t)crc;
	return 0;
}

/* The name for messages, and to find a file beside it (find_alt_beside). */
static char *full_name(const char *root, const char *path)
{
	char *name;

	return asprintf(&name, "%s%s", root ? root : "", path) < 0 ? NULL : name;
}

/* The first file of another build is stored in *ret_refused. */
__attribute__((format(printf, 6, 7))) static int try_link(
	const struct limpet_debugfile_query *query, uint32_t checksum, char **ret_path,
	char **ret_refused, const char *root, const char *format, ...)
{
	LIMPET_FREE char *path = NULL;
	uint32_t found = 0;
	va_list args;
	int fd;

	va_start(args, format);
	fd = vasprintf(&path, format, args);
	va_end(args);
	if (fd < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open_checked(root, path, query);
	if (fd >= 0 && !query->build_id_bytes &&
	    (file_checksum(fd, &found) < 0 || found != checksum)) {
		close(fd);
		fd = -ESTALE;
	}
	if (fd == -ESTALE && !*ret_refused)
		*ret_refused = full_name(root, path);
	if (fd < 0)
		return fd;
	*ret_path = full_name(root, path);
	if (!*ret_path) {
		close(fd);
		return -ENOMEM;
	}
	return fd;
}

/* What .gnu_debuglink says. */
struct debug_link {
	const char *name;
	uint32_t checksum;
	int directory; /* so much of the module's path is its directory's */
};

/* Beside the module and in .debug beside it, under `root`. */
static int find_beside(const struct limpet_debugfile_query *query, const char *root,
		       const struct debug_link *link, char **ret_path, char **ret_refused)
{
	static const char *const locations[] = {"/", "/.debug/"};
	struct stat module, found;

	for (size_t i = 0; i < LIMPET_COUNT_OF(locations); i++) {
		int fd;

		/* The link may name the module itself, or (below) lead to it. */
		if (i == 0 && !strcmp(link->name, limpet_base_name(query->path)))
			continue;
		fd = try_link(query, link->checksum, ret_path, ret_refused, root, "%.*s%s%s",
			      link->directory, query->path, locations[i], link->name);
		if (fd < 0)
			continue;
		if (query->fd >= 0 && !fstat(query->fd, &module) && !fstat(fd, &found) &&
		    module.st_dev == found.st_dev && module.st_ino == found.st_ino) {
			close(fd);
			free(LIMPET_TAKE(*ret_path));
			continue;
		}
		return fd;
	}
	return -ENOENT;
}

/* Any file of the directory that is of this build, whatever its name. */
static int scan_directory(const struct limpet_debugfile_query *query, const char *directory,
			  char **ret_path)
{
	DIR *dir = opendir(directory);
	int fd = -ENOENT;

	for (unsigned i = 0; dir && fd < 0 && i < DIRECTORY_FILES_MAX; i++) {
		struct dirent *entry = readdir(dir);
		char *ignored = NULL;

		if (!entry)
			break;
		if (entry->d_type != DT_REG && entry->d_type != DT_LNK &&
		    entry->d_type != DT_UNKNOWN)
			continue;
		fd = try_link(query, 0, ret_path, &ignored, NULL, "%s/%s", directory,
			      entry->d_name);
		free(ignored);
	}
	if (dir)
		closedir(dir);
	return fd < 0 ? -ENOENT : fd;
}

/* In a directory of the user, where `objcopy --only-keep-debug` may have left it under any name. */
static int find_in_user_dir(const struct limpet_debugfile_query *query, const char *dir,
			    const char *id, char **ret_path, char **ret_refused)
{
	const char *name = limpet_base_name(query->path ? query->path : "");
	int fd = -ENOENT;

	if (!query->build_id_bytes)
		return fd;
	if (id)
		fd = try_link(query, 0, ret_path, ret_refused, NULL, "%s/%s", dir, id);
	if (fd < 0 && name[0])
		fd = try_link(query, 0, ret_path, ret_refused, NULL, "%s/%s.debug", dir, name);
	return fd < 0 ? scan_directory(query, dir, ret_path) : fd;
}

int limpet_debugfile_open_debug(const struct limpet_debugfile_query *query, const char *link,
				uint32_t checksum, char **ret_path, char **ret_refused)
{
	const char *slash = query->path ? strrchr(query->path, '/') : NULL;
	int directory = slash ? (int)(slash - query->path) : 0;
	const struct debug_link beside = {link, checksum, directory};
	bool linked = link && link[0] && !strchr(link, '/');
	LIMPET_FREE char *refused = NULL;
	char id[160];
	bool has_id = build_id_file(query, id, sizeof(id));
	size_t users = count_user_dirs(query);
	const char *dir, *root;
	int fd = -ENOENT;

	for (size_t i = 0; fd < 0 && (dir = debug_dir(query, i, &root)); i++) {
		if (has_id)
			fd = try_link(query, checksum, ret_path, &refused, root, "%s/.build-id/%s",
				      dir, id);
		if (fd < 0 && linked && slash)
			fd = try_link(query, checksum, ret_path, &refused, root, "%s%.*s/%s", dir,
				      directory, query->path, link);
		if (fd < 0 && linked)
			fd = try_link(query, checksum, ret_path, &refused, root, "%s/%s", dir,
				      link);
		if (fd < 0 && i < users)
			fd = find_in_user_dir(query, dir, has_id ? id : NULL, ret_path, &refused);
	}
	if (fd < 0 && linked && slash && query->root)
		fd = find_beside(query, query->root, &beside, ret_path, &refused);
	if (fd < 0 && linked && slash && (!query->root || has_id))
		fd = find_beside(query, NULL, &beside, ret_path, &refused);
	if (fd < 0)
		fd = fetch(query, ret_path);
	if (fd < 0 && ret_refused && !*ret_refused)
		*ret_refused = LIMPET_TAKE(refused);
	return fd < 0 ? -ENOENT : fd;
}

/* A name relative to the directory of `debug_path`. If that is in the target's root, by its prefix
 * (full_name) or as the target's path of its module, looks there; without the prefix also in
 * limpet's own root. */
static int find_alt_beside(const struct limpet_debugfile_query *query, const char *debug_path,
			   const char *name)
{
	size_t root = query->root ? strlen(query->root) : 0;
	bool inside = root && !strncmp(debug_path, query->root, root);
	const char *path = inside ? debug_path + root : debug_path;
	const char *slash = strrchr(path, '/');
	int directory = slash ? (int)(slash - path) : 0, fd = -ENOENT;

	if (slash && root)
		fd = try_file(query, query->root, "%.*s/%s", directory, path, name);
	if (fd < 0 && slash && !inside)
		fd = try_file(query, NULL, "%.*s/%s", directory, path, name);
	return fd;
}

int limpet_debugfile_open_alt(const struct limpet_debugfile_query *query, const char *debug_path,
			      const char *name, const uint8_t *build_id, size_t build_id_bytes)
{
	struct limpet_debugfile_query alt = *query;
	size_t users = count_user_dirs(query);
	const char *dir, *root;
	int fd = -ENOENT;
	char id[160];
	bool has_id;

	alt.build_id = build_id;
	alt.build_id_bytes = build_id_bytes;
	has_id = build_id_file(&alt, id, sizeof(id));
	for (size_t i = 0; fd < 0 && has_id && (dir = debug_dir(&alt, i, &root)); i++) {
		fd = try_file(&alt, root, "%s/.build-id/%s", dir, id);
		if (fd < 0 && i < users)
			fd = try_file(&alt, NULL, "%s/%s", dir, id);
		if (fd < 0 && i < users)
			fd = try_file(&alt, NULL, "%s/%s", dir, limpet_base_name(name));
		if (fd < 0 && i < users)
			fd = try_file(&alt, NULL, "%s/.dwz/%s", dir, limpet_base_name(name));
	}
	if (fd < 0 && has_id && name[0] == '/' && query->root)
		fd = open_checked(query->root, name, &alt);
	if (fd < 0 && has_id && name[0] == '/')
		fd = open_checked(NULL, name, &alt);
	if (fd < 0 && has_id && name[0] != '/' && debug_path)
		fd = find_alt_beside(&alt, debug_path, name);
	if (fd < 0) {
		LIMPET_FREE char *ignored = NULL;

		fd = fetch(&alt, &ignored);
	}
	return fd < 0 ? -ENOENT : fd;
}
