#include "common/array.h"
#include "common/begins.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "common/err.h"
#include "injector/proc/proc_files.h"
#include "injector/proc/target_process.h"

/* Undoes the kernel's escape of a newline, in place. Anything else stays: maps do not escape a
 * backslash that is part of a file's name. */
static void unescape(char *text)
{
	char *out = strchr(text, '\\');

	if (!out)
		return;
	for (const char *in = out; *in; in++, out++) {
		*out = *in;
		if (!strncmp(in, "\\012", 4)) {
			*out = '\n';
			in += 3;
		}
	}
	*out = '\0';
}

/* Strict about the fixed columns: sscanf would accept signs and blanks, and saturate numbers. */
static bool parse_number(char **at, int base, char end, uint64_t *ret)
{
	char *stop;

	if (!(base == 16 ? strchr("0123456789abcdefABCDEF", **at) : strchr("0123456789", **at)) ||
	    !**at)
		return false;
	errno = 0;
	*ret = strtoull(*at, &stop, base);
	if (errno || *stop != end)
		return false;
	*at = stop + 1;
	return true;
}

static bool parse_map(char *line, struct limpet_map *ret_map)
{
	struct limpet_map map = {0};
	uint64_t major, minor;
	char *stop;

	if (!parse_number(&line, 16, '-', &map.start) || !parse_number(&line, 16, ' ', &map.end))
		return false;
	if (strnlen(line, 5) < 5 || line[4] != ' ')
		return false;
	memcpy(map.perms, line, 4);
	line += 5;
	if (!parse_number(&line, 16, ' ', &map.offset) || !parse_number(&line, 16, ':', &major) ||
	    !parse_number(&line, 16, ' ', &minor))
		return false;
	if (*line < '0' || *line > '9')
		return false;
	errno = 0;
	map.inode = strtoull(line, &stop, 10);
	if (errno || (*stop && *stop != ' ') || map.end <= map.start || major > UINT32_MAX ||
	    minor > UINT32_MAX)
		return false;
	/* The kernel pads to a column, then writes the path: a path never starts with a blank ("/",
	 * "[", "anon_inode:", "socket:"...), but may hold and end in any. */
	while (*stop == ' ')
		stop++;
	unescape(stop);
	map.dev_major = (uint32_t)major;
	map.dev_minor = (uint32_t)minor;
	map.path = stop;
	*ret_map = map;
	return true;
}

int limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps)
{
	LIMPET_FREE char *text = NULL;
	LIMPET_FREE struct limpet_map *list = NULL;
	size_t bytes, lines = 0, count = 0;
	char *copy, *next;
	int r;

	limpet_memory_count_call(pid);
	r = limpet_proc_file_read(pid, "maps", &text, &bytes);
	limpet_memory_count_call(pid);
	if (r < 0)
		return r;
	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	if (bytes && text[bytes - 1] != '\n')
		return -EBADMSG; /* the kernel writes whole lines: this was truncated */

	/* one block: the list, followed by the text that the paths point into */
	list = malloc(lines * sizeof(*list) + bytes + 1);
	if (!list)
		return -ENOMEM;
	copy = (char *)(list + lines);
	memcpy(copy, text, bytes + 1);
	for (char *line = copy; *line; line = next) {
		struct limpet_map map;

		next = strchr(line, '\n');
		if (!next)
			return -EBADMSG; /* contains a NUL */
		*next++ = '\0';
		if (!parse_map(line, &map))
			return -EBADMSG;
		/* The file is read in pieces while the target runs: a map that grew or was merged
		 * between two pieces appears twice, in part. */
		if (count && map.start < list[count - 1].end) {
			if (map.end <= list[count - 1].end)
				continue;
			map.offset += list[count - 1].end - map.start;
			map.start = list[count - 1].end;
		}
		list[count++] = map;
	}
	ret_maps->list = LIMPET_TAKE(list);
	ret_maps->count = count;
	return 0;
}

void limpet_proc_maps_done(struct limpet_maps *maps)
{
	free(maps->list);
	maps->list = NULL;
	maps->count = 0;
}

/* struct procmap_query of Linux 6.11 (include/uapi/linux/fs.h) */
struct procmap_query {
	uint64_t size, flags, address;
	uint64_t start, end, protection, page_bytes, offset, inode;
	uint32_t dev_major, dev_minor, name_bytes, build_id_bytes;
	uint64_t name, build_id;
};
#define LIMPET_PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

/* Asks the kernel about one address, which reads no others. */
static int query_map(int file, uint64_t address, struct limpet_map *ret)
{
	struct procmap_query query = {.size = sizeof(query), .address = address};

	if (ioctl(file, LIMPET_PROCMAP_QUERY, &query) < 0)
		return -errno;
	*ret = (struct limpet_map){.start = query.start,
				   .end = query.end,
				   .offset = query.offset,
				   .inode = query.inode,
				   .dev_major = query.dev_major,
				   .dev_minor = query.dev_minor,
				   .path = ""};
	for (unsigned i = 0; i < 3; i++)
		ret->perms[i] = (char)(query.protection >> i & 1 ? "rwx"[i] : '-');
	ret->perms[3] = query.protection >> 3 & 1 ? 's' : 'p';
	return 0;
}

int limpet_proc_maps_at(pid_t pid, const uint64_t *addresses, size_t count,
			struct limpet_map *ret_maps)
{
	LIMPET_CLOSE int file = limpet_proc_open_of(pid, "maps", O_RDONLY);
	struct limpet_maps maps;
	int error = file < 0 ? file : 0;

	memset(ret_maps, 0, count * sizeof(*ret_maps));
	for (size_t i = 0; i < count && !error; i++) {
		error = query_map(file, addresses[i], &ret_maps[i]);
		error = error == -ENOENT ? 0 : error;
	}
	if (!error)
		return 0;
	/* Before Linux 6.11. */
	error = limpet_proc_maps_read(pid, &maps);
	for (size_t i = 0; i < count && !error; i++) {
		const struct limpet_map *map = limpet_proc_maps_find(&maps, addresses[i]);

		ret_maps[i] = map ? *map : (struct limpet_map){0};
		ret_maps[i].path = "";
	}
	if (!error)
		limpet_proc_maps_done(&maps);
	return error;
}

bool limpet_map_is_anonymous(const struct limpet_map *map)
{
	return !map->inode && (!map->path[0] || limpet_begins(map->path, "[anon:"));
}

static bool is_of_run(const struct limpet_map *map)
{
	return limpet_map_is_anonymous(map) && map->perms[3] == 'p';
}

size_t limpet_proc_maps_run(const struct limpet_maps *maps, size_t i, uint64_t end)
{
	const struct limpet_map *list = maps->list;

	while (list[i].end < end && is_of_run(&list[i]) && i + 1 < maps->count &&
	       list[i + 1].start == list[i].end && is_of_run(&list[i + 1]))
		i++;
	return i;
}

bool limpet_map_is_same_file(const struct limpet_map *map, const struct limpet_map *other)
{
	return map->inode == other->inode && map->dev_major == other->dev_major &&
	       map->dev_minor == other->dev_minor;
}

bool limpet_map_is_code_of(const struct limpet_maps *maps, size_t i, const struct limpet_map *file)
{
	const struct limpet_map *map = &maps->list[i];

	if (map->perms[2] != 'x' || !limpet_map_is_anonymous(map))
		return map->perms[2] == 'x' && limpet_map_is_same_file(map, file);
	return (i && map[-1].end == map->start && limpet_map_is_same_file(&map[-1], file)) ||
	       (i + 1 < maps->count && map[1].start == map->end &&
		limpet_map_is_same_file(&map[1], file));
}

const struct limpet_map *limpet_proc_maps_find(const struct limpet_maps *maps, uint64_t address)
{
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, maps->count, maps->list[i].start <= address);

	return above && address < maps->list[above - 1].end ? &maps->list[above - 1] : NULL;
}

uint64_t limpet_proc_main_stack_low(const struct limpet_target *target,
				    const struct limpet_maps *maps, const struct limpet_map *map)
{
	const uint64_t least_bytes = 8u << 20;
	uint64_t bytes = least_bytes, low, below = map > maps->list ? map[-1].end : 0;
	struct rlimit limit;

	if (prlimit(target->pid, RLIMIT_STACK, NULL, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > least_bytes)
		bytes = limit.rlim_cur;
	low = bytes < map->end - map->start ? map->start : bytes < map->end ? map->end - bytes : 0;
	return low < below ? below : low;
}

/* ------------------------------------------------------------------ smaps */

int limpet_proc_smaps_read(pid_t pid, struct limpet_smaps *ret_smaps)
{
	char *text;
	size_t bytes;
	int r = limpet_proc_file_read(pid, "smaps", &text, &bytes);

	if (r < 0)
		return r;
	*ret_smaps = (struct limpet_smaps){.text = text, .next = text};
	return 0;
}

void limpet_proc_smaps_done(struct limpet_smaps *smaps)
{
	free(smaps->text);
	smaps->text = smaps->next = NULL;
}

/* Keys start with a capital letter, a mapping with its address in lower-case hex. */
static bool is_key(const char *line)
{
	return *line >= 'A' && *line <= 'Z';
}

/* Terminates a line of a text, and returns the next one. */
static char *end_line(char *line)
{
	char *end = strchrnul(line, '\n');

	if (!*end)
		return end;
	*end = '\0';
	return end + 1;
}

/* Takes the next mapping as limpet_proc_smaps_next() does. */
static int parse_smap(struct limpet_smaps *smaps, struct limpet_smap *ret_smap)
{
	char *line = smaps->next, *keys, *end;

	if (!*line)
		return 0;
	keys = end = end_line(line);
	while (is_key(end)) {
		char *stop = strchrnul(end, '\n');

		end = *stop ? stop + 1 : stop;
	}
	smaps->next = end;
	if (!parse_map(line, &ret_smap->map))
		return -EBADMSG;
	/* The end of the last key's line, or of the mapping's line if there are no keys. */
	if (*end)
		end[-1] = '\0';
	ret_smap->keys = end > keys ? keys : "";
	return 1;
}

int limpet_proc_smaps_next(struct limpet_smaps *smaps, struct limpet_smap *ret_smap)
{
	struct limpet_smap smap;
	int code;

	do {
		code = parse_smap(smaps, &smap);
		if (code <= 0)
			return code;
	} while (smap.map.start < smaps->end);
	smaps->end = smap.map.end;
	*ret_smap = smap;
	return 1;
}

bool limpet_smap_bytes(const struct limpet_smap *smap, const char *key, uint64_t *ret_bytes)
{
	const char *value = limpet_proc_status_value(smap->keys, key);
	uint64_t kilobytes;
	char *stop;

	if (!value || *value < '0' || *value > '9')
		return false;
	kilobytes = strtoull(value, &stop, 10);
	if (*stop != ' ')
		return false;
	*ret_bytes = kilobytes * 1024;
	return true;
}

bool limpet_smap_has_flag(const struct limpet_smap *smap, const char *flag)
{
	const char *at = limpet_proc_status_value(smap->keys, "VmFlags");

	while (at && *at && *at != '\n') {
		size_t length = strcspn(at, " \n");

		if (length == strlen(flag) && !strncmp(at, flag, length))
			return true;
		at += length;
		at += *at == ' ';
	}
	return false;
}
