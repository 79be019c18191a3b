#include "analyzer/symbols/symbol_worker.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include "analyzer/symbols/perfmap.h"
#include "analyzer/symbols/source_map.h"
#include "analyzer/symbols/symbol.h"
#include "analyzer/symbols/symbol_channel.h"
#include "analyzer/symbols/symbol_reader.h"
#include "common/array.h"
#include "common/confine.h"

/* Large programs come with some GiB of debug information, which is mapped, not read. */
#define MEMORY_MIN (2ull << 30)
#define MEMORY_MAX (16ull << 30)
#define DESCRIPTORS 256u
/* A message of this length is sent. */
#define ENOUGH_BYTES (64u << 10)

struct worker {
	struct limpet_symbol_channel channel;
	struct limpet_symbol_reader *reader;
	bool sent_unread;
	/* For the next MAP. */
	uint64_t *addresses;
	size_t address_count, address_capacity;
};

static int claim_fd(struct limpet_symbol_channel *channel)
{
	return limpet_take_fd(&channel->fd);
}

/* ------------------------------------------------------------------ files that are wanted */

/* Requests a file; returns its descriptor or -errno. No other message comes in between. */
static int request_file(struct limpet_symbol_channel *channel, enum limpet_symbol_message_type type)
{
	int code = limpet_symbol_send(channel, type, -1);

	if (code == 0)
		code = limpet_symbol_receive(channel);
	if (code == 0 && channel->type != LIMPET_SYMBOL_FILE)
		code = -EBADMSG;
	if (code < 0)
		_exit(LIMPET_EXIT_FAILED);
	return channel->fd >= 0 ? claim_fd(channel) : -ENOENT;
}

static int open_debug(void *context, const char *link, uint32_t checksum)
{
	struct limpet_symbol_channel *channel = context;

	limpet_symbol_append(channel, checksum);
	limpet_symbol_append_text(channel, link);
	return request_file(channel, LIMPET_SYMBOL_REQUEST_DEBUG);
}

static int open_alt(void *context, const uint8_t *build_id, size_t build_id_bytes, const char *name)
{
	struct limpet_symbol_channel *channel = context;

	limpet_symbol_append_build_id(channel, build_id, build_id_bytes);
	limpet_symbol_append_text(channel, name);
	return request_file(channel, LIMPET_SYMBOL_REQUEST_ALT);
}

static bool has_end(const char *path, const char *end)
{
	size_t bytes = strlen(path), end_bytes = strlen(end);

	return bytes > end_bytes && !strcmp(path + bytes - end_bytes, end);
}

/* libdw opens the parts of split debug information by name, without a callback. It does so while an
 * answer is being written, which is therefore set aside. */
static int open_split(void *context, const char *path)
{
	struct worker *worker = context;
	struct limpet_bytes answer = worker->channel.out;
	int fd;

	if (!has_end(path, ".dwo") && !has_end(path, ".dwp"))
		return -EACCES;
	worker->channel.out = (struct limpet_bytes){.data = NULL};
	limpet_symbol_append_text(&worker->channel, path);
	fd = request_file(&worker->channel, LIMPET_SYMBOL_REQUEST_SPLIT);
	limpet_bytes_done(&worker->channel.out);
	worker->channel.out = answer;
	return fd;
}

/* ------------------------------------------------------------------ requests */

/* An answer that is being written is set aside. */
static int send_unread(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	const char *unread = worker->reader ? limpet_symbol_reader_unread(worker->reader) : NULL;
	struct limpet_bytes answer = channel->out;
	int code;

	if (!unread || worker->sent_unread)
		return 0;
	worker->sent_unread = true;
	channel->out = (struct limpet_bytes){.data = NULL};
	limpet_symbol_append_text(channel, unread);
	code = limpet_symbol_send(channel, LIMPET_SYMBOL_UNREAD, -1);
	limpet_bytes_done(&channel->out);
	channel->out = answer;
	return code;
}

static int open_module(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	const struct limpet_symbol_files files = {
		.open_debug = open_debug, .open_alt = open_alt, .context = channel};
	struct limpet_err err = {0};
	int code;

	if (worker->reader || !limpet_symbol_is_whole(channel) || channel->fd < 0)
		return -EBADMSG;
	code = limpet_symbol_reader_open(claim_fd(channel), &files, &worker->reader, &err);
	if (send_unread(worker) < 0)
		return -EPIPE;
	limpet_symbol_append(channel, code < 0 ? (uint64_t)-code : 0);
	limpet_symbol_append(channel, code == 0 && limpet_symbol_reader_has_lines(worker->reader));
	limpet_symbol_append_text(channel, err.message);
	return limpet_symbol_send(channel, LIMPET_SYMBOL_OPENED, -1);
}

static void append_frame(struct limpet_symbol_channel *channel, const struct limpet_symbol *frame)
{
	limpet_symbol_append(channel, (uint64_t)frame->line << 1 | frame->inlined);
	limpet_symbol_append_text(channel, frame->function);
	limpet_symbol_append_text(channel, frame->file);
}

static int flush_frames(struct limpet_symbol_channel *channel, size_t enough)
{
	return channel->out.count < enough ? 0
					   : limpet_symbol_send(channel, LIMPET_SYMBOL_FRAMES, -1);
}

static int resolve(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	uint64_t addresses[LIMPET_SYMBOLIZER_BATCH];
	uint64_t count = limpet_cursor_limited(&channel->cursor, LIMPET_SYMBOLIZER_BATCH);
	int code = 0;

	for (uint64_t i = 0; i < count; i++)
		addresses[i] = limpet_symbol_read(channel);
	if (!worker->reader || !limpet_symbol_is_whole(channel))
		return -EBADMSG;
	for (uint64_t i = 0; i < count && code == 0; i++) {
		const struct limpet_symbol *list;
		int frames = limpet_symbol_reader_resolve(worker->reader, addresses[i], &list);

		limpet_symbol_append(channel, (uint64_t)frames);
		for (int j = 0; j < frames; j++)
			append_frame(channel, &list[j]);
		code = send_unread(worker);
		if (code == 0)
			code = flush_frames(channel, ENOUGH_BYTES);
	}
	return code == 0 ? flush_frames(channel, 1) : code;
}

static int find_variable(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	struct limpet_symbol_variable found = {.name = NULL};
	const uint64_t address = limpet_symbol_read(channel);

	if (!worker->reader || !limpet_symbol_is_whole(channel))
		return -EBADMSG;
	limpet_symbol_reader_variable(worker->reader, address, &found);
	limpet_symbol_append(channel, found.start);
	limpet_symbol_append(channel, found.bytes);
	limpet_symbol_append(channel, found.line);
	limpet_symbol_append_text(channel, found.name);
	limpet_symbol_append_text(channel, found.file);
	return limpet_symbol_send(channel, LIMPET_SYMBOL_FOUND, -1);
}

static int add_addresses(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	uint64_t count =
		limpet_cursor_limited(&channel->cursor, limpet_cursor_left(&channel->cursor));
	uint64_t last;

	if (limpet_reserve(&worker->addresses, &worker->address_capacity,
			   worker->address_count + count + 1, sizeof(*worker->addresses)) < 0)
		return -ENOMEM;
	last = worker->address_count ? worker->addresses[worker->address_count - 1] : 0;
	for (uint64_t i = 0; i < count; i++)
		worker->addresses[worker->address_count++] = last += limpet_symbol_read(channel);
	return limpet_symbol_is_whole(channel) ? 0 : -EBADMSG;
}

static int answer_map(struct worker *worker, const struct limpet_perfmap *map)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	int code = 0;

	for (size_t i = 0; i < worker->address_count && code == 0; i++) {
		const struct limpet_perfmap_name name = limpet_perfmap_at(map, i);
		const struct limpet_symbol frame = {
			.function = name.function, .file = name.file, .line = name.line};

		limpet_symbol_append(channel, name.function != NULL);
		if (name.function)
			append_frame(channel, &frame);
		code = flush_frames(channel, ENOUGH_BYTES);
	}
	return code == 0 ? flush_frames(channel, 1) : code;
}

/* The addresses come in several messages; the map comes with the last of them. */
static int read_map(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	LIMPET_CLOSE int fd = claim_fd(channel);
	struct limpet_perfmap *map = NULL;
	int result, code = add_addresses(worker);

	if (code < 0 || fd < 0)
		return code;
	result = limpet_perfmap_read(fd, worker->addresses, worker->address_count, NULL, &map);
	limpet_symbol_append(channel, result < 0 ? (uint64_t)-result : 0);
	code = limpet_symbol_send(channel, LIMPET_SYMBOL_DONE, -1);
	if (code == 0 && result == 0)
		code = answer_map(worker, map);
	limpet_perfmap_free(map);
	worker->address_count = 0;
	return code;
}

static int open_source_map(struct limpet_symbol_channel *channel, const char *url, size_t bytes)
{
	LIMPET_FREE char *name = strndup(url, bytes);

	if (!name || bytes > LIMPET_SYMBOL_TEXT_MAX)
		return -ENOMEM;
	limpet_symbol_append_text(channel, name);
	return request_file(channel, LIMPET_SYMBOL_REQUEST_SOURCE);
}

/* NULL: empty, or it cannot be mapped. A file that shrinks ends the process. */
static const char *map_file(int fd, size_t *ret_bytes)
{
	const off_t bytes = lseek(fd, 0, SEEK_END);
	void *at =
		bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;

	*ret_bytes = (size_t)bytes;
	return at == MAP_FAILED ? NULL : at;
}

static int look_up_places(struct worker *worker, const char *script, size_t bytes,
			  struct limpet_source_place *ret_places)
{
	const char *url, *map;
	const size_t url_bytes = limpet_source_map_url(script, bytes, &url);
	LIMPET_FREE char *within =
		url_bytes ? limpet_source_map_inline(url, url_bytes, &bytes) : NULL;
	LIMPET_CLOSE int fd = -1;

	if (within)
		return limpet_source_map_look_up(within, bytes, worker->addresses,
						 worker->address_count, ret_places);
	fd = url_bytes ? open_source_map(&worker->channel, url, url_bytes) : -ENOENT;
	map = fd >= 0 ? map_file(fd, &bytes) : NULL;
	return map ? limpet_source_map_look_up(map, bytes, worker->addresses, worker->address_count,
					       ret_places)
		   : -ENOENT;
}

static int answer_places(struct worker *worker, const struct limpet_source_place *places)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	int code = 0;

	for (size_t i = 0; i < worker->address_count && code == 0; i++) {
		const struct limpet_symbol frame = {.file = places[i].file, .line = places[i].line};

		limpet_symbol_append(channel, places[i].file != NULL);
		if (places[i].file)
			append_frame(channel, &frame);
		code = flush_frames(channel, ENOUGH_BYTES);
	}
	return code == 0 ? flush_frames(channel, 1) : code;
}

/* As a perf map; one script for a process. */
static int read_script(struct worker *worker)
{
	struct limpet_symbol_channel *channel = &worker->channel;
	LIMPET_CLOSE int fd = claim_fd(channel);
	LIMPET_FREE struct limpet_source_place *places = NULL;
	const char *script;
	size_t bytes;
	int result, code = add_addresses(worker);

	if (code < 0 || fd < 0)
		return code;
	places = calloc(worker->address_count + 1, sizeof(*places));
	script = places ? map_file(fd, &bytes) : NULL;
	result = script ? look_up_places(worker, script, bytes, places) : -ENOENT;
	limpet_symbol_append(channel, result < 0 ? (uint64_t)-result : 0);
	code = limpet_symbol_send(channel, LIMPET_SYMBOL_DONE, -1);
	return code == 0 && result == 0 ? answer_places(worker, places) : code;
}

static int serve(struct worker *worker)
{
	int code = limpet_symbol_receive(&worker->channel);

	if (code < 0)
		return code;
	switch (worker->channel.type) {
	case LIMPET_SYMBOL_OPEN:
		return open_module(worker);
	case LIMPET_SYMBOL_RESOLVE:
		return resolve(worker);
	case LIMPET_SYMBOL_VARIABLE:
		return find_variable(worker);
	case LIMPET_SYMBOL_MAP:
		return read_map(worker);
	case LIMPET_SYMBOL_SCRIPT:
		return read_script(worker);
	default:
		return -EBADMSG;
	}
}

static uint64_t memory_limit(void)
{
	struct sysinfo info;
	uint64_t half = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit / 2 : 0;

	return half < MEMORY_MIN ? MEMORY_MIN : half > MEMORY_MAX ? MEMORY_MAX : half;
}

static bool is_requested(void)
{
	int type = 0;
	socklen_t bytes = sizeof(type);

	return getsockopt(LIMPET_SYMBOL_WORKER_FD, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
	       type == SOCK_STREAM;
}

/* Closes all descriptors that limpet inherited, even those that only name a file (O_PATH). */
static void close_others(void)
{
	const long enough = 65536;
	long limit = sysconf(_SC_OPEN_MAX);

	if (syscall(SYS_close_range, LIMPET_SYMBOL_WORKER_FD + 1, ~0u, 0) == 0)
		return;
	/* Linux before 5.9. */
	for (long fd = limit < enough ? limit : enough; fd > LIMPET_SYMBOL_WORKER_FD; fd--)
		close((int)fd);
}

int limpet_symbol_worker(void)
{
	struct worker worker = {.reader = NULL};
	const struct limpet_confinement confinement = {
		.memory_bytes = memory_limit(),
		.cpu_seconds = LIMPET_SYMBOL_WORKER_CPU_S,
		.descriptors = DESCRIPTORS,
		.open_file = open_split,
		.context = &worker,
	};
	struct limpet_err err = {0};
	int code;

	if (!is_requested())
		return LIMPET_EXIT_USAGE;
	limpet_symbol_channel_init(&worker.channel, LIMPET_SYMBOL_WORKER_FD);
	worker.channel.accepts_files = true;
	close_others();
	/* Otherwise it would be "exe". */
	prctl(PR_SET_NAME, "limpet");
	code = limpet_confine(&confinement, &err);
	if (code < 0) {
		limpet_symbol_append(&worker.channel, (uint64_t)-code);
		limpet_symbol_append_text(&worker.channel, err.message);
		(void)!limpet_symbol_send(&worker.channel, LIMPET_SYMBOL_REFUSED, -1);
		return LIMPET_EXIT_REFUSED;
	}
	while (serve(&worker) == 0)
		;
	return LIMPET_EXIT_OK;
}
