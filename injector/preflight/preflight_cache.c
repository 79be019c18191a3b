/* Preflight: caches what executables contain, for lists of many processes. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/open_file.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/preflight/preflight_check.h"

struct cache_entry {
	dev_t device;
	ino_t inode;
	struct timespec changed;
	struct limpet_program program;
};

struct limpet_preflight_cache {
	struct cache_entry *list;
	size_t count, capacity;
};

struct limpet_preflight_cache *limpet_preflight_cache_new(void)
{
	return calloc(1, sizeof(struct limpet_preflight_cache));
}

void limpet_preflight_cache_free(struct limpet_preflight_cache *cache)
{
	if (cache)
		free(cache->list);
	free(cache);
}

static const struct limpet_program *cache_find(const struct limpet_preflight_cache *cache,
					       const struct stat *st)
{
	for (size_t i = 0; cache && i < cache->count; i++)
		if (cache->list[i].inode == st->st_ino && cache->list[i].device == st->st_dev &&
		    !memcmp(&cache->list[i].changed, &st->st_ctim, sizeof(st->st_ctim)))
			return &cache->list[i].program;
	return NULL;
}

/* An entry that cannot be added is not an error. */
static void cache_add(struct limpet_preflight_cache *cache, const struct stat *st,
		      const struct limpet_program *program)
{
	if (!cache ||
	    limpet_reserve(&cache->list, &cache->capacity, cache->count + 1, sizeof(*cache->list)))
		return;
	cache->list[cache->count++] =
		(struct cache_entry){st->st_dev, st->st_ino, st->st_ctim, *program};
}

int limpet_check_read_program(struct limpet_check *check, struct limpet_program *ret_program)
{
	const struct limpet_program *known;
	LIMPET_CLOSE int fd = -1;
	char process[PATH_MAX];
	struct stat st;
	int r;

	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root, check->resident);
	fd = limpet_open_linked(process, "exe", &st);
	if (fd < 0)
		return fd;
	known = cache_find(check->options.cache, &st);
	if (known) {
		*ret_program = *known;
		return 0;
	}
	r = limpet_program_read(fd, ret_program);
	if (r == 0)
		cache_add(check->options.cache, &st, ret_program);
	return r;
}
