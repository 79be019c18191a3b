#include "injector/module_book.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/wire.h"

/* A program that loads and unloads for ever would have ever more; what comes later has no name. */
#define MAX_ENTRIES 16384u
/* Of the descriptors that we may have. */
#define SHARE_OF_FILES 2

struct entry {
	uint64_t start, end;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t number;
	struct limpet_gone *places; /* from where others had gone when it was seen first */
	uint32_t place_count;
	bool live;
	bool lent; /* its descriptor is that of an entry before it */
};

struct limpet_module_book {
	struct limpet_session *session;
	struct limpet_recorder *recorder;
	struct entry *entries;
	struct limpet_collector_source *sources; /* as many as entries, same order */
	size_t count, capacity;
	size_t open_files, max_files;
};

int limpet_module_book_new(struct limpet_session *session, struct limpet_recorder *recorder,
			   struct limpet_module_book **ret)
{
	struct limpet_module_book *book = calloc(1, sizeof(*book));
	struct rlimit files;

	if (!book)
		return -ENOMEM;
	book->session = session;
	book->recorder = recorder;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		book->max_files = files.rlim_cur / SHARE_OF_FILES;
	*ret = book;
	return 0;
}

void limpet_module_book_free(struct limpet_module_book *book)
{
	if (!book)
		return;
	for (size_t i = 0; i < book->count; i++) {
		if (book->sources[i].fd >= 0 && !book->entries[i].lent)
			close(book->sources[i].fd);
		free(book->entries[i].places);
	}
	free(book->entries);
	free(book->sources);
	free(book);
}

static bool is_same_file(const struct entry *entry, const struct limpet_module *module)
{
	return entry->inode == module->inode && entry->dev_major == module->dev_major &&
	       entry->dev_minor == module->dev_minor;
}

/* One descriptor a file, however often it comes and goes: without any left we could not even read
 * /proc any more. */
static int find_file(struct limpet_module_book *book, const struct limpet_module *module,
		     bool *ret_lent)
{
	int fd;

	*ret_lent = false;
	for (size_t i = 0; i < book->count; i++) {
		if (!is_same_file(&book->entries[i], module) || book->sources[i].fd < 0)
			continue;
		*ret_lent = true;
		return book->sources[i].fd;
	}
	if (book->open_files >= book->max_files)
		return -1;
	fd = limpet_module_hold(limpet_session_pid(book->session), module);
	book->open_files += fd >= 0;
	return fd;
}

static int make_room(struct limpet_module_book *book)
{
	size_t capacity = book->capacity ? book->capacity * 2 : 64;
	struct limpet_collector_source *sources;
	struct entry *entries;

	if (book->count < book->capacity)
		return 0;
	entries = realloc(book->entries, capacity * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	book->entries = entries;
	sources = realloc(book->sources, capacity * sizeof(*sources));
	if (!sources)
		return -ENOMEM;
	book->sources = sources;
	book->capacity = capacity;
	return 0;
}

/* The places that overlap with it, out of a copy: the target may write there. */
static int note_places(const struct limpet_gone *places, uint32_t count, struct entry *entry)
{
	for (uint32_t i = 0; i < count; i++) {
		struct limpet_gone *more;

		if (places[i].start >= entry->end || places[i].end <= entry->start)
			continue;
		more = reallocarray(entry->places, entry->place_count + 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		entry->places = more;
		more[entry->place_count++] = places[i];
	}
	return 0;
}

static void enter(struct limpet_module_book *book, struct limpet_module *module,
		  const struct limpet_gone *places, uint32_t place_count)
{
	pid_t pid = limpet_session_pid(book->session);
	struct limpet_recorder_module record = {
		.start = module->start,
		.end = module->end,
		.bias = module->bias,
		.path = module->path,
		.build_id = module->build_id,
		.build_id_bytes = module->build_id_bytes,
		.allocator = !module->executable && limpet_module_has_malloc(pid, module),
	};
	struct entry entry = {.start = module->start,
			      .end = module->end,
			      .inode = module->inode,
			      .dev_major = module->dev_major,
			      .dev_minor = module->dev_minor,
			      .live = true};
	int number, fd;

	if (book->count >= MAX_ENTRIES || make_room(book) < 0)
		return;
	number = limpet_recorder_add_module(book->recorder, &record);
	if (number <= 0)
		return;
	if (note_places(places, place_count, &entry) < 0) {
		free(entry.places);
		return;
	}
	fd = find_file(book, module, &entry.lent);
	entry.number = (uint32_t)number;
	book->entries[book->count] = entry;
	book->sources[book->count] = (struct limpet_collector_source){(uint32_t)number, fd};
	book->count++;
}

/* Number of the last module that had gone from there when the entry was made, as nodes have it. */
static uint32_t gone_before(const struct entry *entry, uint64_t address)
{
	return limpet_gone_find(entry->places, entry->place_count, address);
}

bool limpet_module_book_update(struct limpet_module_book *book, uint32_t gone_count)
{
	const struct limpet_shm *shm = limpet_session_segment(book->session)->shm;
	struct limpet_modules *modules = limpet_session_modules(book->session);
	uint32_t place_count = __atomic_load_n(&shm->gone_places, __ATOMIC_ACQUIRE);
	struct limpet_gone places[LIMPET_MAX_GONE];
	size_t before = book->count;

	if (place_count > LIMPET_MAX_GONE)
		place_count = LIMPET_MAX_GONE;
	limpet_shared_copy(places, shm->gone, place_count * sizeof(*places));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&shm->gone_count, __ATOMIC_RELAXED) != gone_count)
		return false;
	for (size_t k = 0; k < before; k++)
		book->entries[k].live = false;
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		bool known = false;

		if (module->agent)
			continue;
		for (size_t k = 0; k < before && !known; k++) {
			struct entry *entry = &book->entries[k];

			known = entry->start == module->start && entry->end == module->end &&
				entry->inode == module->inode &&
				gone_before(entry, entry->start) ==
					limpet_gone_find(places, place_count, entry->start);
			if (known)
				entry->live = true;
		}
		if (!known)
			enter(book, module, places, place_count);
	}
	return true;
}

/* The mapping of the same part of the file that the module has by its program headers. */
static const struct limpet_map *first_mapping(const struct limpet_modules *modules,
					      const struct limpet_map *again,
					      struct limpet_module **ret_module)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];

		if (module->agent || module->inode != again->inode ||
		    module->dev_major != again->dev_major || module->dev_minor != again->dev_minor)
			continue;
		for (size_t k = 0; k < modules->maps.count; k++) {
			const struct limpet_map *map = &modules->maps.list[k];

			if (map->start < module->start || map->end > module->end ||
			    map->inode != again->inode || again->offset < map->offset ||
			    again->offset - map->offset >= map->end - map->start)
				continue;
			*ret_module = module;
			return map;
		}
	}
	return NULL;
}

static bool is_entered(const struct limpet_module_book *book, const struct limpet_map *map)
{
	for (size_t i = 0; i < book->count; i++)
		if (book->entries[i].start == map->start && book->entries[i].end == map->end &&
		    book->entries[i].inode == map->inode)
			return true;
	return false;
}

void limpet_module_book_add_again(struct limpet_module_book *book, const struct limpet_maps *maps)
{
	struct limpet_modules *modules = limpet_session_modules(book->session);

	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *again = &maps->list[i], *map;
		struct limpet_module *module, copy;

		if (again->perms[2] != 'x' || !again->inode ||
		    limpet_modules_find(modules, again->start) || is_entered(book, again))
			continue;
		map = first_mapping(modules, again, &module);
		if (!map)
			continue;
		limpet_module_has_malloc(limpet_session_pid(book->session), module);
		copy = *module;
		copy.start = again->start;
		copy.end = again->end;
		copy.bias += (again->start - again->offset) - (map->start - map->offset);
		enter(book, &copy, NULL, 0);
	}
}

uint32_t limpet_module_book_find(const struct limpet_module_book *book, uint64_t address,
				 uint32_t number)
{
	uint32_t gone = 0;

	for (size_t i = book->count; i > 0; i--) {
		const struct entry *entry = &book->entries[i - 1];

		if (address < entry->start || address >= entry->end ||
		    gone_before(entry, address) != number)
			continue;
		if (entry->live)
			return entry->number;
		gone = entry->number;
	}
	/* Unloaded a moment ago: what it allocated is recorded after it went. */
	return gone;
}

size_t limpet_module_book_sources(const struct limpet_module_book *book,
				  const struct limpet_collector_source **ret)
{
	*ret = book->sources;
	return book->count;
}
