#include "collector/stream/module_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/open_file.h"
#include "common/wire.h"
#include "injector/proc/target_process.h"
#include "injector/remote/segment.h"

/* Bound for a program that loads and unloads modules forever; later ones have no name. */
#define MAX_ENTRIES 16384u
/* Files without build-id that are read at the end, of LIMPET_FILE_IDENTITY_BYTES each. */
#define CHECKSUMS_MAX 256u
/* Share of the descriptors that limpet may have. */
#define SHARE_OF_FILES 2

struct entry {
	uint64_t start, end;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t number;
	struct limpet_file_identity identity; /* if it has no build-id */
	bool has_build_id;
	struct limpet_gone *places; /* from which others had been unloaded when it was seen first */
	uint32_t place_count;
	bool live;
	bool lent; /* its descriptor is that of an earlier entry */
};

struct limpet_module_table {
	struct limpet_modules *modules;
	const struct limpet_shm *shm; /* NULL: unloaded modules are not counted */
	struct limpet_recorder *recorder;
	struct entry *entries;
	struct limpet_collector_source *sources; /* as many as entries, same order */
	size_t count, capacity;
	size_t open_files, max_files;
};

int limpet_module_table_new(struct limpet_modules *modules, const struct limpet_shm *shm,
			    struct limpet_recorder *recorder, struct limpet_module_table **ret)
{
	struct limpet_module_table *table = calloc(1, sizeof(*table));
	struct rlimit files;

	if (!table)
		return -ENOMEM;
	table->modules = modules;
	table->shm = shm;
	table->recorder = recorder;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		table->max_files = files.rlim_cur / SHARE_OF_FILES;
	*ret = table;
	return 0;
}

void limpet_module_table_free(struct limpet_module_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++) {
		if (table->sources[i].fd >= 0 && !table->entries[i].lent)
			close(table->sources[i].fd);
		free(table->entries[i].places);
	}
	free(table->entries);
	free(table->sources);
	free(table);
}

static bool is_same_file(const struct entry *entry, const struct limpet_module *module)
{
	return entry->inode == module->inode && entry->dev_major == module->dev_major &&
	       entry->dev_minor == module->dev_minor;
}

/* One descriptor per file, however often it is loaded and unloaded: without free descriptors limpet
 * could not even read /proc any more. */
static int find_file(struct limpet_module_table *table, const struct limpet_module *module,
		     bool *ret_lent)
{
	int fd;

	*ret_lent = false;
	if (!module->inode)
		return -1;
	for (size_t i = 0; i < table->count; i++) {
		if (!is_same_file(&table->entries[i], module) || table->sources[i].fd < 0)
			continue;
		*ret_lent = true;
		return table->sources[i].fd;
	}
	if (table->open_files >= table->max_files)
		return -1;
	fd = limpet_module_hold(table->modules->target, module);
	table->open_files += fd >= 0;
	return fd;
}

/* Which build it is, if it has no build-id. Of a file that a program may serve nothing is asked
 * before the end. */
static void look_at_file(struct limpet_module_table *table, size_t index)
{
	struct entry *entry = &table->entries[index];
	const int held = table->sources[index].fd;
	LIMPET_CLOSE int fd = -1;
	struct stat status;

	if (entry->has_build_id || held < 0)
		return;
	fd = limpet_open_named(held, NULL, LIMPET_OPEN_IN_PLACE, &status);
	if (fd < 0)
		return;
	limpet_file_identity_take_status(&entry->identity, &status);
	limpet_recorder_identify_module(table->recorder, entry->number, &entry->identity);
}

/* The checksum of an earlier entry of the same file is its own. */
static bool find_checksum(const struct limpet_module_table *table, size_t index,
			  struct limpet_file_identity *identity)
{
	for (size_t i = 0; i < index; i++) {
		const struct limpet_file_identity *other = &table->entries[i].identity;

		if (table->sources[i].fd != table->sources[index].fd || !other->has_checksum)
			continue;
		identity->has_checksum = true;
		identity->checksum = other->checksum;
		return true;
	}
	return false;
}

static bool take_checksum(int held, struct limpet_file_identity *identity)
{
	struct limpet_file_identity now = {.has_status = false};
	struct stat status;
	LIMPET_CLOSE int fd = limpet_open_named(held, NULL, 0, &status);

	if (fd < 0)
		return false;
	limpet_file_identity_take_status(&now, &status);
	/* Written to since: what was mapped is no longer known. */
	if (identity->has_status &&
	    (now.bytes != identity->bytes || now.changed_ns != identity->changed_ns))
		return false;
	identity->has_checksum = limpet_file_identity_checksum(fd, &identity->checksum) == 0;
	return identity->has_checksum;
}

void limpet_module_table_identify(struct limpet_module_table *table)
{
	unsigned left = CHECKSUMS_MAX;

	for (size_t i = 0; i < table->count; i++) {
		struct entry *entry = &table->entries[i];
		const int held = table->sources[i].fd;

		if (entry->has_build_id || held < 0)
			continue;
		if (find_checksum(table, i, &entry->identity) ||
		    (left && left-- && take_checksum(held, &entry->identity)))
			limpet_recorder_identify_module(table->recorder, entry->number,
							&entry->identity);
	}
}

static int make_room(struct limpet_module_table *table)
{
	size_t capacity = table->capacity ? table->capacity * 2 : 64;
	struct limpet_collector_source *sources;
	struct entry *entries;

	if (table->count < table->capacity)
		return 0;
	entries = realloc(table->entries, capacity * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	table->entries = entries;
	sources = realloc(table->sources, capacity * sizeof(*sources));
	if (!sources)
		return -ENOMEM;
	table->sources = sources;
	table->capacity = capacity;
	return 0;
}

/* Notes the places that overlap with the entry. `places` is a copy: the target may write to the
 * original. */
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

/* `allocator`: whether it defines malloc. Returns its number in the trace; 0: there is no room. */
static uint32_t enter(struct limpet_module_table *table, const struct limpet_module *module,
		      const struct limpet_gone *places, uint32_t place_count, bool allocator)
{
	struct limpet_recorder_module record = {
		.start = module->start,
		.end = module->end,
		.bias = module->bias,
		.path = module->path,
		.build_id = module->build_id,
		.build_id_bytes = module->build_id_bytes,
		.allocator = allocator,
	};
	struct entry entry = {.start = module->start,
			      .end = module->end,
			      .inode = module->inode,
			      .dev_major = module->dev_major,
			      .dev_minor = module->dev_minor,
			      .has_build_id = module->build_id_bytes != 0,
			      .live = true};
	int number, fd;

	if (table->count >= MAX_ENTRIES || make_room(table) < 0)
		return 0;
	number = limpet_recorder_add_module(table->recorder, &record);
	if (number <= 0)
		return 0;
	if (note_places(places, place_count, &entry) < 0) {
		free(entry.places);
		return 0;
	}
	fd = find_file(table, module, &entry.lent);
	entry.number = (uint32_t)number;
	table->entries[table->count] = entry;
	table->sources[table->count] = (struct limpet_collector_source){(uint32_t)number, fd};
	look_at_file(table, table->count);
	table->count++;
	return entry.number;
}

/* Number of the last module that had been unloaded from there when the entry was made; nodes have
 * the same number. */
static uint32_t gone_before(const struct entry *entry, uint64_t address)
{
	return limpet_gone_find(entry->places, entry->place_count, address);
}

/* Copies the places of unloaded modules; false: another was unloaded since `gone_count`. */
static bool copy_places(const struct limpet_shm *shm, uint32_t gone_count,
			struct limpet_gone ret_places[LIMPET_MAX_GONE], uint32_t *ret_count)
{
	uint32_t count = __atomic_load_n(&shm->gone_places, __ATOMIC_ACQUIRE);

	if (count > LIMPET_MAX_GONE)
		count = LIMPET_MAX_GONE;
	limpet_shared_copy(ret_places, shm->gone, count * sizeof(*ret_places));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	*ret_count = count;
	return __atomic_load_n(&shm->gone_count, __ATOMIC_RELAXED) == gone_count;
}

bool limpet_module_table_update(struct limpet_module_table *table, uint32_t gone_count)
{
	struct limpet_modules *modules = table->modules;
	struct limpet_gone places[LIMPET_MAX_GONE];
	uint32_t place_count = 0;
	size_t before = table->count;

	if (table->shm && !copy_places(table->shm, gone_count, places, &place_count))
		return false;
	for (size_t k = 0; k < before; k++)
		table->entries[k].live = false;
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		bool known = false;

		if (module->agent)
			continue;
		for (size_t k = 0; k < before && !known; k++) {
			struct entry *entry = &table->entries[k];

			known = entry->start == module->start && entry->end == module->end &&
				entry->inode == module->inode &&
				gone_before(entry, entry->start) ==
					limpet_gone_find(places, place_count, entry->start);
			if (known)
				entry->live = true;
		}
		if (!known)
			enter(table, module, places, place_count,
			      !module->executable &&
				      limpet_module_has_malloc(modules->target, module));
	}
	return true;
}

/* The module's own mapping, by its program headers, of the same part of the file. */
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

static bool is_entered(const struct limpet_module_table *table, const struct limpet_map *map)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->entries[i].start == map->start && table->entries[i].end == map->end &&
		    table->entries[i].inode == map->inode)
			return true;
	return false;
}

void limpet_module_table_add_again(struct limpet_module_table *table,
				   const struct limpet_maps *maps)
{
	struct limpet_modules *modules = table->modules;

	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *again = &maps->list[i], *map;
		struct limpet_module *module, copy;

		if (again->perms[2] != 'x' || !again->inode ||
		    limpet_modules_find(modules, again->start) || is_entered(table, again))
			continue;
		map = first_mapping(modules, again, &module);
		if (!map)
			continue;
		copy = *module;
		copy.start = again->start;
		copy.end = again->end;
		copy.bias += (again->start - again->offset) - (map->start - map->offset);
		enter(table, &copy, NULL, 0,
		      !module->executable && limpet_module_has_malloc(modules->target, module));
	}
}

uint32_t limpet_module_table_find(const struct limpet_module_table *table, uint64_t address,
				  uint32_t number)
{
	uint32_t gone = 0;

	for (size_t i = table->count; i > 0; i--) {
		const struct entry *entry = &table->entries[i - 1];

		if (address < entry->start || address >= entry->end ||
		    gone_before(entry, address) != number)
			continue;
		if (entry->live)
			return entry->number;
		gone = entry->number;
	}
	/* Unloaded a moment ago: its allocations are recorded after it was unloaded. */
	return gone;
}

/* Copies the entry that the agent wrote for the address; false: there is none, or it changes. */
static bool find_late(const struct limpet_shm *shm, uint64_t address, uint32_t gone,
		      struct limpet_late_module *ret)
{
	for (uint32_t i = 0; i < LIMPET_LATE_MODULES; i++) {
		const struct limpet_late_module *late = &shm->late[i];
		const uint32_t number = __atomic_load_n(&late->number, __ATOMIC_ACQUIRE);

		if (!number || address < late->start || address >= late->end || late->gone != gone)
			continue;
		limpet_shared_copy(ret, late, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&late->number, __ATOMIC_RELAXED) != number)
			return false;
		ret->path[sizeof(ret->path) - 1] = '\0';
		return address >= ret->start && address < ret->end && ret->build_id_bytes &&
		       ret->build_id_bytes <= sizeof(ret->build_id) && ret->path[0] == '/';
	}
	return false;
}

uint32_t limpet_module_table_find_late(struct limpet_module_table *table, uint64_t address,
				       uint32_t gone)
{
	struct limpet_late_module late;
	struct limpet_module module;
	struct limpet_gone place;

	if (!table->shm || !find_late(table->shm, address, gone, &late))
		return 0;
	module = (struct limpet_module){.path = late.path,
					.start = late.start,
					.end = late.end,
					.bias = late.bias,
					.build_id_bytes = late.build_id_bytes};
	memcpy(module.build_id, late.build_id, late.build_id_bytes);
	place = (struct limpet_gone){.start = late.start, .end = late.end, .number = gone};
	return enter(table, &module, &place, 1, false);
}

size_t limpet_module_table_sources(const struct limpet_module_table *table,
				   const struct limpet_collector_source **ret)
{
	*ret = table->sources;
	return table->count;
}
