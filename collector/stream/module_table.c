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
#include "injector/elf/modules_memory.h"
#include "injector/proc/target_process.h"
#include "injector/remote/segment.h"

/* Bound for a program that loads and unloads modules forever; later ones have no name. */
#define MAX_ENTRIES 16384u
/* Files without build-id that are read at the end, of LIMPET_FILE_IDENTITY_BYTES each. */
#define CHECKSUMS_MAX 256u
/* Share of the descriptors that limpet may have. */
#define SHARE_OF_FILES 2
/* Mounts on which files are held: those of the program and of the dynamic linker, which stay mapped
 * and so keep both from being unmounted anyway. */
#define MOUNTS 2u

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
};

struct limpet_module_table {
	struct limpet_modules *modules;
	const struct limpet_shm *shm; /* NULL: unloaded modules are not counted */
	struct limpet_recorder *recorder;
	struct entry *entries;
	struct limpet_collector_source *sources; /* as many as entries, same order */
	size_t count, capacity;
	size_t open_files, max_files;
	uint64_t mounts[MOUNTS]; /* statx(2)'s numbers */
	unsigned mount_count;
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

static bool is_held(const struct limpet_module_table *table, int fd)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->sources[i].fd == fd)
			return true;
	return false;
}

static void release_file(struct limpet_module_table *table, size_t index)
{
	const int fd = table->sources[index].fd;

	table->sources[index].fd = -1;
	if (fd < 0 || is_held(table, fd))
		return;
	close(fd);
	table->open_files--;
}

void limpet_module_table_free(struct limpet_module_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++) {
		release_file(table, i);
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

static bool mount_of(int fd, uint64_t *ret)
{
	struct statx status;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) < 0 ||
	    !(status.stx_mask & STATX_MNT_ID))
		return false;
	*ret = status.stx_mnt_id;
	return true;
}

static void find_mounts(struct limpet_module_table *table)
{
	const struct limpet_modules *modules = table->modules;

	for (size_t i = 0; i < modules->count && table->mount_count < MOUNTS; i++) {
		const struct limpet_module *module = &modules->list[i];
		LIMPET_CLOSE int fd = -1;

		if (!module->executable && !module->loader && !module->libc_loader)
			continue;
		fd = limpet_module_hold(modules->target, module);
		if (fd >= 0 && mount_of(fd, &table->mounts[table->mount_count]))
			table->mount_count++;
	}
}

/* The program could not unmount the others while limpet has a file of theirs. */
static bool may_hold(const struct limpet_module_table *table, int fd)
{
	uint64_t mount;

	if (!mount_of(fd, &mount))
		return false;
	for (unsigned i = 0; i < table->mount_count; i++)
		if (table->mounts[i] == mount)
			return true;
	return false;
}

/* One descriptor per file, however often it is loaded: without free descriptors limpet could not
 * even read /proc any more. */
static int find_file(const struct limpet_module_table *table, const struct entry *entry)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct entry *other = &table->entries[i];

		if (table->sources[i].fd >= 0 && other->inode == entry->inode &&
		    other->dev_major == entry->dev_major && other->dev_minor == entry->dev_minor)
			return table->sources[i].fd;
	}
	return -1;
}

/* Which build it is, if it has no build-id. Of a file that a program may serve nothing is asked
 * before the end. */
static void read_identity(struct limpet_module_table *table, size_t index, int held)
{
	struct entry *entry = &table->entries[index];
	LIMPET_CLOSE int fd = -1;
	struct stat status;

	if (entry->has_build_id || held < 0)
		return;
	fd = limpet_open_named(held, NULL, LIMPET_OPEN_IN_PLACE, &status);
	if (fd < 0)
		return;
	limpet_file_identity_set_status(&entry->identity, &status);
	limpet_recorder_identify_module(table->recorder, entry->number, &entry->identity);
}

/* Opens the file of a new entry, and keeps it if that keeps nothing from the program. */
static void hold_file(struct limpet_module_table *table, size_t index,
		      const struct limpet_module *module)
{
	int fd = module->inode ? find_file(table, &table->entries[index]) : -1;
	const bool shared = fd >= 0;

	if (!shared && module->inode && table->open_files < table->max_files)
		fd = limpet_module_hold(table->modules->target, module);
	if (fd < 0)
		return;
	read_identity(table, index, fd);
	if (!shared && !may_hold(table, fd)) {
		close(fd);
		return;
	}
	table->sources[index].fd = fd;
	table->open_files += !shared;
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

static bool read_checksum(int held, struct limpet_file_identity *identity)
{
	struct limpet_file_identity now = {.has_status = false};
	struct stat status;
	LIMPET_CLOSE int fd = limpet_open_named(held, NULL, 0, &status);

	if (fd < 0)
		return false;
	limpet_file_identity_set_status(&now, &status);
	/* Written to since: what was mapped is no longer known. */
	if (identity->has_status &&
	    (now.bytes != identity->bytes || now.changed_ns != identity->changed_ns))
		return false;
	identity->has_checksum = limpet_file_identity_checksum(fd, &identity->checksum) == 0;
	return identity->has_checksum;
}

/* The file of an entry that has none, if it is mapped now. */
static int open_late(const struct limpet_module_table *table, const struct entry *entry)
{
	const struct limpet_modules *modules = table->modules;

	for (size_t i = 0; entry->live && i < modules->count; i++) {
		const struct limpet_module *module = &modules->list[i];

		if (module->start == entry->start && module->end == entry->end &&
		    is_same_file(entry, module))
			return limpet_module_hold(modules->target, module);
	}
	return -1;
}

/* Only a file without a name has to be kept: others are found by it. */
static void keep_late(struct limpet_module_table *table, size_t index)
{
	struct stat status;

	table->open_files++;
	if (table->open_files > table->max_files || fstat(table->sources[index].fd, &status) < 0 ||
	    status.st_nlink)
		release_file(table, index);
}

void limpet_module_table_identify(struct limpet_module_table *table)
{
	unsigned left = CHECKSUMS_MAX;

	for (size_t i = 0; i < table->count; i++) {
		struct entry *entry = &table->entries[i];
		int *held = &table->sources[i].fd;
		bool late;

		if (*held < 0 && entry->inode)
			*held = find_file(table, entry);
		late = *held < 0 && entry->inode;
		if (late)
			*held = open_late(table, entry);
		if (*held < 0)
			continue;
		if (!entry->has_build_id &&
		    (find_checksum(table, i, &entry->identity) ||
		     (left && left-- && read_checksum(*held, &entry->identity))))
			limpet_recorder_identify_module(table->recorder, entry->number,
							&entry->identity);
		if (late)
			keep_late(table, i);
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
	int number;

	if (table->count >= MAX_ENTRIES || make_room(table) < 0)
		return 0;
	number = limpet_recorder_add_module(table->recorder, &record);
	if (number <= 0)
		return 0;
	if (note_places(places, place_count, &entry) < 0) {
		free(entry.places);
		return 0;
	}
	entry.number = (uint32_t)number;
	table->entries[table->count] = entry;
	table->sources[table->count] = (struct limpet_collector_source){(uint32_t)number, -1};
	hold_file(table, table->count, module);
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
	if (!table->mount_count)
		find_mounts(table);
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
	/* A file that is deleted takes its space until nobody has it open. */
	for (size_t k = 0; k < before; k++)
		if (!table->entries[k].live)
			release_file(table, k);
	limpet_module_memory_close_files(modules->memory);
	return true;
}

/* The module's own mapping, by its program headers, of the same code of the file: a page of it may
 * be mapped twice, at different distances. */
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
			    map->perms[2] != 'x' || map->inode != again->inode ||
			    again->offset >= map->offset + (map->end - map->start) ||
			    map->offset >= again->offset + (again->end - again->start))
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
