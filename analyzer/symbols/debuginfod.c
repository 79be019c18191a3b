#include "analyzer/symbols/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"

#define BUILD_ID_MAX_BYTES 64

/* The library's ABI, from <elfutils/debuginfod.h>; its soname has been the same since 0.178. */
struct client;
typedef int progress_function(struct client *client, long done, long total);

struct limpet_debuginfod {
	struct limpet_debuginfod_options options;
	void *library;
	struct client *client;
	void (*end)(struct client *client);
	int (*find)(struct client *client, const unsigned char *build_id, int bytes, char **path);
	uint64_t deadline_ns;
	unsigned fetched;
	bool loaded;
	int error;
};

/* The library passes no context to its progress function. */
static _Thread_local struct limpet_debuginfod *at_work;

/* Why to stop, or 0. */
static int impatience(const struct limpet_debuginfod *debuginfod)
{
	if (debuginfod->options.cancel && *debuginfod->options.cancel)
		return -EINTR;
	return limpet_monotonic_ns() >= debuginfod->deadline_ns ? -ETIME : 0;
}

/* Not 0: the download ends. */
static int on_progress(struct client *client, long done, long total)
{
	(void)client, (void)done, (void)total;
	if (at_work->options.waiting)
		at_work->options.waiting(at_work->options.context);
	return impatience(at_work) != 0;
}

struct limpet_debuginfod *limpet_debuginfod_new(const struct limpet_debuginfod_options *options)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct limpet_debuginfod *debuginfod;

	if (!urls || !urls[strspn(urls, " ")])
		return NULL;
	debuginfod = calloc(1, sizeof(*debuginfod));
	if (debuginfod)
		debuginfod->options = *options;
	return debuginfod;
}

void limpet_debuginfod_free(struct limpet_debuginfod *debuginfod)
{
	if (!debuginfod)
		return;
	if (debuginfod->client)
		debuginfod->end(debuginfod->client);
	/* Not closed: it has loaded libcurl, which must not be unloaded. */
	free(debuginfod);
}

/* *function is a pointer to a function. False: there is none of that name. */
static bool look_up(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

static int load(struct limpet_debuginfod *debuginfod)
{
	void (*set_progress)(struct client *, progress_function *);
	struct client *(*begin)(void);
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);

	debuginfod->loaded = true;
	if (!library || !look_up(library, "debuginfod_begin", &begin) ||
	    !look_up(library, "debuginfod_end", &debuginfod->end) ||
	    !look_up(library, "debuginfod_find_debuginfo", &debuginfod->find) ||
	    !look_up(library, "debuginfod_set_progressfn", &set_progress))
		return -ELIBACC;
	debuginfod->client = begin();
	if (!debuginfod->client)
		return -ENOMEM;
	set_progress(debuginfod->client, on_progress);
	debuginfod->deadline_ns =
		limpet_monotonic_ns() + debuginfod->options.limit_seconds * (uint64_t)1000000000u;
	return 0;
}

/* An empty file in the library's cache means for ten minutes that no server has the file. The
 * library (elfutils 0.188) leaves one also if limpet ended the download: remove it, so that the
 * next request is not refused. */
static void forget_miss(const uint8_t *build_id, size_t build_id_bytes)
{
	static const struct {
		const char *variable, *directory;
	} locations[] = {{"DEBUGINFOD_CACHE_PATH", ""},
			 {"XDG_CACHE_HOME", "/debuginfod_client"},
			 {"HOME", "/.cache/debuginfod_client"},
			 {"HOME", "/.debuginfod_client_cache"}};
	char id[2 * BUILD_ID_MAX_BYTES + 1] = "";

	for (size_t i = 0; i < build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", build_id[i]);
	for (size_t i = 0; i < LIMPET_COUNT_OF(locations); i++) {
		const char *value = getenv(locations[i].variable);
		LIMPET_FREE char *path = NULL;
		struct stat file;

		if (!value ||
		    asprintf(&path, "%s%s/%s/debuginfo", value, locations[i].directory, id) < 0) {
			path = NULL;
			continue;
		}
		if (lstat(path, &file) == 0 && S_ISREG(file.st_mode) && !file.st_size)
			unlink(path);
	}
}

int limpet_debuginfod_fetch(struct limpet_debuginfod *debuginfod, const uint8_t *build_id,
			    size_t build_id_bytes, char **ret_path)
{
	int result, why;

	if (!build_id_bytes || build_id_bytes > BUILD_ID_MAX_BYTES)
		return -ENOENT;
	if (!debuginfod->loaded)
		debuginfod->error = load(debuginfod);
	if (!debuginfod->error)
		debuginfod->error = impatience(debuginfod);
	if (debuginfod->error)
		return debuginfod->error;
	at_work = debuginfod;
	result = debuginfod->find(debuginfod->client, build_id, (int)build_id_bytes, ret_path);
	at_work = NULL;
	if (result >= 0) {
		debuginfod->fetched++;
		return result;
	}
	why = impatience(debuginfod);
	if (why)
		forget_miss(build_id, build_id_bytes);
	if (why || result != -ENOENT)
		debuginfod->error = why ? why : result;
	return why ? why : result;
}

int limpet_debuginfod_error(const struct limpet_debuginfod *debuginfod)
{
	return debuginfod ? debuginfod->error : 0;
}

unsigned limpet_debuginfod_fetched(const struct limpet_debuginfod *debuginfod)
{
	return debuginfod ? debuginfod->fetched : 0;
}

const char *limpet_debuginfod_words(int error)
{
	switch (error) {
	case -ELIBACC:
		return "DEBUGINFOD_URLS is set, but there is no libdebuginfod.so.1";
	case -ETIME:
		return "the servers took too long";
	case -EINTR:
		return "interrupted";
	default:
		return strerror(-error);
	}
}
