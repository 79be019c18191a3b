#include "analyzer/symbols/symbolize.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "analyzer/symbols/build_id.h"
#include "analyzer/symbols/debugfile.h"
#include "analyzer/symbols/symbol_channel.h"
#include "analyzer/symbols/symbol_worker.h"
#include "analyzer/symbols/texts.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/open_file.h"

/* Limits of the wait for an answer, in polls POLL_MS apart: polls in which the worker computes next
 * to nothing, and all polls. */
#define POLL_MS 100
#define IDLE_POLLS 300u
#define POLLS 6000u
#define NEXT_TO_NOTHING_NS 1000000
/* Limit of the wait for the end of a killed worker. */
#define END_MS 5000
/* Limit of the names of one module; no real one has so many. */
#define TEXT_BYTES_MAX (256u << 20)
/* Files that may be requested for one module: its debug information, dwz's, and the parts of split
 * debug information, of which there may be one for each source file. */
#define WHOLE_REQUESTS 4u
#define SPLIT_REQUESTS 65536u
/* Last components of such a part's path that are tried beside the module. */
#define MOVED_PARTS 8u
/* Addresses of one MAP message. */
#define MAP_STEP 4096u

struct answer {
	uint64_t address;
	size_t first;
	int count;
};

struct limpet_symbolizer {
	struct limpet_symbol_channel channel;
	pid_t worker;
	int pidfd;
	clockid_t clock; /* of its processor time */
	unsigned polls, idle_polls;
	const volatile sig_atomic_t *cancel;
	int failure;
	/* For the files that the worker may request. */
	struct limpet_debugfile_query query;
	char *path, *root;
	uint8_t build_id[LIMPET_BUILD_ID_ROOM];
	unsigned wholes, splits; /* that were requested */
	char *debug_path;        /* of the separate debug file, if there is one */
	char *refused, *unread;
	/* The worker's answers. */
	bool has_lines;
	struct limpet_texts texts;
	struct answer *answers;
	size_t answer_count, answer_capacity, next;
	bool is_map; /* all answers were received at once */
	bool is_script;
	struct limpet_symbol *frames;
	size_t frame_count, frame_capacity;
};

/* ------------------------------------------------------------------ the process */

static int64_t worker_ns(const struct limpet_symbolizer *s)
{
	return (int64_t)limpet_clock_ns(s->clock);
}

static void begin_wait(struct limpet_symbolizer *s)
{
	s->polls = s->idle_polls = 0;
}

static int wait_for(void *context, short events)
{
	struct limpet_symbolizer *s = context;
	int64_t before = worker_ns(s);

	/* Each part of an answer that arrives in small parts counts as a poll, too. */
	while (s->polls++ < POLLS && s->idle_polls < IDLE_POLLS) {
		struct pollfd one = {.fd = s->channel.socket, .events = events};
		int64_t now;
		int ready;

		if (s->cancel && *s->cancel)
			return -EINTR;
		ready = poll(&one, 1, POLL_MS);
		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return -errno;
		now = worker_ns(s);
		s->idle_polls += now - before < NEXT_TO_NOTHING_NS;
		before = now;
	}
	return -ETIMEDOUT;
}

/* Signals it by its pidfd: if SIGCHLD is ignored, there are no zombies, and the pid may be reused.
 * A worker that does not end, in an uninterruptible system call, is left to the process that reaps
 * limpet's orphans. */
static void end_worker(struct limpet_symbolizer *s)
{
	struct pollfd end = {.fd = s->pidfd, .events = POLLIN};

	/* Root without CAP_KILL may not signal a process of nobody; but a worker ends when its
	 * socket is shut down. */
	if (s->channel.socket >= 0)
		shutdown(s->channel.socket, SHUT_RDWR);
	if (s->worker > 0 && s->pidfd >= 0) {
		syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
		while (poll(&end, 1, END_MS) < 0 && errno == EINTR)
			;
		waitpid(s->worker, NULL, WNOHANG);
	}
	if (s->pidfd >= 0)
		close(s->pidfd);
	s->worker = 0;
	s->pidfd = -1;
}

/* The confined process gets only the variables that find limpet's own libraries, and the options of
 * sanitizers. */
static void worker_environment(char *list[], size_t room)
{
	static const char *const names[] = {"LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "TSAN_OPTIONS=",
					    "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
	size_t count = 0;

	for (char **one = environ; *one; one++)
		for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
			if (!strncmp(*one, names[i], strlen(names[i])) && count + 1 < room)
				list[count++] = *one;
	list[count] = NULL;
}

/* Replaces standard input, output and error by the read end of a pipe without a writer: nothing can
 * be read or written. A root directory may have no /dev/null. */
static int add_actions(posix_spawn_file_actions_t *actions, int socket, int nothing)
{
	int code = 0;

	for (int fd = 0; fd < LIMPET_SYMBOL_WORKER_FD && !code; fd++)
		code = posix_spawn_file_actions_adddup2(actions, nothing, fd);
	return code ? code
		    : posix_spawn_file_actions_adddup2(actions, socket, LIMPET_SYMBOL_WORKER_FD);
}

/* In a session of its own, without the terminal's signals: these are for the process that uses the
 * worker. */
static int spawn(struct limpet_symbolizer *s, int socket, int nothing)
{
	char name[] = "limpet", command[] = LIMPET_SYMBOL_WORKER;
	char *const arguments[] = {name, command, NULL};
	char *environment[8];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int code;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETSID);
	code = add_actions(&actions, socket, nothing);
	worker_environment(environment, LIMPET_COUNT_OF(environment));
	if (!code)
		code = posix_spawn(&s->worker, "/proc/self/exe", &actions, &attributes, arguments,
				   environment);
	/* Without /proc: by the path that limpet was executed by. */
	if (code == ENOENT)
		code = posix_spawn(&s->worker, (const char *)(uintptr_t)getauxval(AT_EXECFN),
				   &actions, &attributes, arguments, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (code) {
		s->worker = 0;
		return -code;
	}
	s->pidfd = (int)syscall(SYS_pidfd_open, s->worker, 0);
	if (s->pidfd < 0) {
		code = -errno;
		kill(s->worker, SIGKILL);
		return code;
	}
	return -clock_getcpuclockid(s->worker, &s->clock);
}

/* Moves a descriptor above those that the worker gets. */
static int move_up(int *fd)
{
	int up = fcntl(*fd, F_DUPFD_CLOEXEC, LIMPET_SYMBOL_WORKER_FD + 1);

	if (up < 0)
		return -errno;
	close(*fd);
	*fd = up;
	return 0;
}

static int start_worker(struct limpet_symbolizer *s)
{
	LIMPET_CLOSE int nothing = -1, theirs = -1;
	int pipe_ends[2], ends[2], code;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	limpet_symbol_channel_init(&s->channel, ends[0]);
	s->channel.wait = wait_for;
	s->channel.context = s;
	theirs = ends[1];
	if (pipe2(pipe_ends, O_CLOEXEC) < 0)
		return -errno;
	nothing = pipe_ends[0];
	close(pipe_ends[1]);
	code = move_up(&theirs);
	if (code == 0)
		code = move_up(&nothing);
	return code == 0 ? spawn(s, theirs, nothing) : code;
}

/* ------------------------------------------------------------------ files that are wanted */

static int open_part(const char *root, const char *path)
{
	LIMPET_CLOSE int fd = limpet_open_regular(root, path, 0, NULL);
	Elf64_Ehdr head;

	if (fd < 0)
		return fd;
	/* Only a linker's input; not, say, the core dump of another user's process. */
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_REL)
		return -ENOEXEC;
	return limpet_take_fd(&fd);
}

/* Looks beside the module, in case both were moved: by the last component of the name, by the last
 * two... */
static int open_moved(const struct limpet_symbolizer *s, const char *name)
{
	const char *slash = strrchr(s->path, '/'), *part = name + strlen(name);
	int fd = -ENOENT;

	for (unsigned i = 0; slash && fd < 0 && i < MOVED_PARTS && part > name; i++) {
		LIMPET_FREE char *path = NULL;

		for (part--; part > name && *part != '/'; part--)
			;
		if (asprintf(&path, "%.*s/%s", (int)(slash - s->path), s->path,
			     part + (*part == '/')) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		fd = open_part(s->root, path);
	}
	return fd;
}

/* A part of split debug information: an ELF file with such a name; libdw compares its id with the
 * wanted one. If the target has a root, only there: a name from a file may lead anywhere. */
static int open_split(const struct limpet_symbolizer *s, const char *name)
{
	const char *end = name ? strrchr(name, '.') : NULL;
	int fd;

	if (!end || name[0] != '/' || (strcmp(end, ".dwo") != 0 && strcmp(end, ".dwp") != 0))
		return -EACCES;
	fd = open_part(s->root, name);
	return fd < 0 ? open_moved(s, name) : fd;
}

/* A path from a script or its map, seen from the directory of the one at `from`; malloc'ed. NULL:
 * it is none, or no memory. */
static char *path_from(const char *from, const char *name)
{
	const char *slash = strrchr(from, '/');
	char *path;

	if (!strncmp(name, "file://", 7))
		name += 7;
	if (strstr(name, "://") || !*name)
		return NULL;
	if (*name == '/')
		return strdup(name);
	return asprintf(&path, "%.*s/%s", slash ? (int)(slash - from) : 0, from, name) < 0 ? NULL
											   : path;
}

/* Only what is called a map: a name from a file may lead anywhere. */
static int open_source_map(struct limpet_symbolizer *s, const char *name)
{
	const size_t length = name ? strlen(name) : 0;

	if (!s->is_script || s->debug_path || length < 5 || strcmp(name + length - 4, ".map") != 0)
		return -EACCES;
	s->debug_path = path_from(s->path, name);
	return s->debug_path ? limpet_open_regular(s->root, s->debug_path, 0, NULL) : -ENOENT;
}

/* 0, and a descriptor or -errno in *ret_fd; -EBADMSG: not a valid request. */
static int open_requested(struct limpet_symbolizer *s, int *ret_fd)
{
	struct limpet_symbol_channel *channel = &s->channel;
	const bool is_split = channel->type == LIMPET_SYMBOL_REQUEST_SPLIT;
	const bool is_source = channel->type == LIMPET_SYMBOL_REQUEST_SOURCE;
	const char *name;
	uint32_t checksum = 0;
	const uint8_t *build_id = NULL;
	size_t bytes = 0;

	if (is_split ? ++s->splits > SPLIT_REQUESTS : ++s->wholes > WHOLE_REQUESTS)
		return -EBADMSG;
	if (channel->type == LIMPET_SYMBOL_REQUEST_DEBUG)
		checksum = (uint32_t)limpet_cursor_limited(&channel->cursor, UINT32_MAX);
	else if (channel->type == LIMPET_SYMBOL_REQUEST_ALT)
		build_id = limpet_symbol_read_build_id(channel, &bytes);
	else if (!is_split && !is_source)
		return -EBADMSG;
	name = limpet_symbol_read_text(channel);
	if (!limpet_symbol_is_whole(channel))
		return -EBADMSG;
	if (is_source)
		*ret_fd = open_source_map(s, name);
	else if (is_split)
		*ret_fd = open_split(s, name);
	else if (build_id)
		*ret_fd = name && bytes ? limpet_debugfile_open_alt(&s->query,
								    s->debug_path ? s->debug_path
										  : s->query.path,
								    name, build_id, bytes)
					: -ENOENT;
	/* The worker asks again if it could not use the file: there is no other. */
	else
		*ret_fd = s->debug_path ? -ENOENT
					: limpet_debugfile_open_debug(&s->query, name, checksum,
								      &s->debug_path, &s->refused);
	return 0;
}

static int read_unread(struct limpet_symbolizer *s)
{
	const char *words = limpet_symbol_read_text(&s->channel);

	if (s->unread || !words || !limpet_symbol_is_whole(&s->channel))
		return -EBADMSG;
	s->unread = strdup(words);
	return s->unread ? 0 : -ENOMEM;
}

/* Receives the next answer; files that the worker requests before it are found and sent. */
static int receive(struct limpet_symbolizer *s, uint32_t type)
{
	for (;;) {
		LIMPET_CLOSE int fd = -1;
		int code = limpet_symbol_receive(&s->channel);

		if (code < 0)
			return code;
		if (s->channel.type == type)
			return 0;
		if (s->channel.type == LIMPET_SYMBOL_UNREAD) {
			code = read_unread(s);
			if (code < 0)
				return code;
			continue;
		}
		code = open_requested(s, &fd);
		if (code == 0)
			code = limpet_symbol_send(&s->channel, LIMPET_SYMBOL_FILE, fd);
		if (code < 0)
			return code;
	}
}

/* ------------------------------------------------------------------ opening */

/* No more names: the worker has ended, or its answers cannot be trusted. */
static int give_up(struct limpet_symbolizer *s, int code)
{
	s->failure = code == -EINTR || code == -ENOMEM ? code : -EPROTO;
	end_worker(s);
	return s->failure;
}

static int explain(struct limpet_symbolizer *s, int code, struct limpet_err *err)
{
	const char *words = "the process that read it has ended";

	if (s->channel.type == LIMPET_SYMBOL_REFUSED) {
		limpet_symbol_read(&s->channel);
		words = limpet_symbol_read_text(&s->channel);
		limpet_err_set(
			err, -EPROTO,
			"'%s' is not read: a process that reads files of others could not be "
			"confined (%s)",
			s->query.path, words ? words : "?");
	} else if (code == -EINTR || code == -ENOMEM) {
		return limpet_err_set(err, code, "'%s' is not read: %s", s->query.path,
				      strerror(-code));
	} else {
		limpet_err_set(err, -EPROTO, "'%s' could not be read: %s", s->query.path,
			       code == -ETIMEDOUT ? "no answer" : words);
	}
	return -EPROTO;
}

static int read_opened(struct limpet_symbolizer *s, struct limpet_err *err)
{
	/* The error determines the message and what is done: it is not taken from the worker. */
	int code = limpet_symbol_read(&s->channel) ? -ENOEXEC : 0;
	const char *words;

	s->has_lines = limpet_symbol_read(&s->channel) != 0;
	words = limpet_symbol_read_text(&s->channel);
	if (!limpet_symbol_is_whole(&s->channel))
		return explain(s, give_up(s, -EBADMSG), err);
	if (code < 0)
		limpet_err_set(err, code, "'%s' is not a readable ELF file: %s", s->query.path,
			       words && *words ? words : strerror(-code));
	return code;
}

static int request_module(struct limpet_symbolizer *s, struct limpet_err *err)
{
	int code = start_worker(s);

	if (code < 0)
		return limpet_err_set(err, -EPROTO, "cannot start the process that reads '%s': %s",
				      s->query.path, strerror(-code));
	begin_wait(s);
	code = limpet_symbol_send(&s->channel, LIMPET_SYMBOL_OPEN, s->query.fd);
	if (code == 0 || code == -EPIPE)
		code = receive(s, LIMPET_SYMBOL_OPENED);
	if (code < 0) {
		give_up(s, code);
		return explain(s, code, err);
	}
	return read_opened(s, err);
}

static struct limpet_symbolizer *symbolizer_new(const volatile sig_atomic_t *cancel)
{
	struct limpet_symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->cancel = cancel;
	s->query.fd = s->pidfd = -1;
	limpet_symbol_channel_init(&s->channel, -1);
	return s;
}

/* If the caller gives no build-id, open_module() uses that of the module itself. */
static void copy_build_id(struct limpet_symbolizer *s,
			  const struct limpet_symbolizer_options *options)
{
	s->query.build_id = s->build_id;
	s->query.build_id_bytes = 0;
	if (options->build_id && options->build_id_bytes <= sizeof(s->build_id)) {
		memcpy(s->build_id, options->build_id, options->build_id_bytes);
		s->query.build_id_bytes = options->build_id_bytes;
	}
}

static int open_module(struct limpet_symbolizer *s, const struct limpet_symbolizer_options *options,
		       struct limpet_err *err)
{
	LIMPET_CLOSE int fd = -1;
	int code;

	s->path = strdup(options->path ? options->path : "");
	s->root = options->root ? strdup(options->root) : NULL;
	if (!s->path || (options->root && !s->root))
		return limpet_err_set(err, -ENOMEM, "no memory");
	s->query = (struct limpet_debugfile_query){
		.path = s->path,
		.fd = options->fd,
		.root = s->root,
		.debug_dirs = options->debug_dirs,
		.debuginfod = options->debuginfod,
		.identity = options->identity,
	};
	copy_build_id(s, options);
	fd = limpet_debugfile_open_module(&s->query, err);
	if (fd < 0)
		return fd;
	if (!s->query.build_id_bytes &&
	    limpet_build_id_read(fd, s->build_id, &s->query.build_id_bytes) < 0)
		s->query.build_id_bytes = 0;
	s->query.identity = NULL;
	s->query.fd = fd; /* to recognize a debuglink to itself */
	code = request_module(s, err);
	s->query.fd = -1;
	return code;
}

int limpet_symbolizer_open(const struct limpet_symbolizer_options *options,
			   struct limpet_symbolizer **ret, struct limpet_err *err)
{
	struct limpet_symbolizer *s = symbolizer_new(options->cancel);
	int code = s ? open_module(s, options, err) : limpet_err_set(err, -ENOMEM, "no memory");

	if (code < 0) {
		limpet_symbolizer_close(s);
		return code;
	}
	*ret = s;
	return 0;
}

void limpet_symbolizer_close(struct limpet_symbolizer *s)
{
	if (!s)
		return;
	end_worker(s);
	limpet_symbol_channel_done(&s->channel);
	limpet_texts_done(&s->texts);
	free(s->answers);
	free(s->frames);
	free(s->debug_path);
	free(s->refused);
	free(s->unread);
	free(s->path);
	free(s->root);
	free(s);
}

bool limpet_symbolizer_has_lines(const struct limpet_symbolizer *s)
{
	return s->has_lines;
}

const char *limpet_symbolizer_refused(const struct limpet_symbolizer *s)
{
	return s->refused;
}

const char *limpet_symbolizer_unread(const struct limpet_symbolizer *s)
{
	return s->unread;
}

int limpet_symbolizer_failure(const struct limpet_symbolizer *s)
{
	return s->failure;
}

/* ------------------------------------------------------------------ answers */

/* NULL and cursor.failed if out of memory, or if the names exceed TEXT_BYTES_MAX. */
static const char *read_text(struct limpet_symbolizer *s)
{
	const char *text = limpet_symbol_read_text(&s->channel), *kept;

	if (!text)
		return NULL;
	kept = s->texts.bytes <= TEXT_BYTES_MAX ? limpet_texts_keep(&s->texts, text) : NULL;
	if (!kept)
		s->channel.cursor.failed = true;
	return kept;
}

static int read_frame(struct limpet_symbolizer *s)
{
	uint64_t place = limpet_cursor_limited(&s->channel.cursor, (uint64_t)UINT32_MAX << 1 | 1);
	struct limpet_symbol *frame;

	if (limpet_reserve(&s->frames, &s->frame_capacity, s->frame_count + 1, sizeof(*s->frames)) <
	    0)
		return -ENOMEM;
	frame = &s->frames[s->frame_count++];
	frame->line = (uint32_t)(place >> 1);
	frame->inlined = place & 1;
	frame->function = read_text(s);
	frame->file = read_text(s);
	return 0;
}

static int read_answer(struct limpet_symbolizer *s, struct answer *answer)
{
	/* JIT-compiled code has one name per address. */
	uint64_t count = limpet_cursor_limited(&s->channel.cursor,
					       s->is_map ? 1 : LIMPET_SYMBOL_MAX_INLINED);
	int code = 0;

	answer->first = s->frame_count;
	for (uint64_t i = 0; i < count && code == 0; i++)
		code = read_frame(s);
	if (code == 0 && s->channel.cursor.failed)
		code = -EBADMSG;
	answer->count = (int)(s->frame_count - answer->first);
	return code;
}

/* Takes the answers for all requested addresses, in their order. */
static int receive_answers(struct limpet_symbolizer *s, size_t count)
{
	size_t done = 0;
	int code = 0;

	while (done < count && code == 0) {
		code = s->cancel && *s->cancel ? -EINTR : receive(s, LIMPET_SYMBOL_FRAMES);
		/* Each message must have an answer: empty messages could come forever. */
		do
			code = code == 0 ? read_answer(s, &s->answers[done]) : code;
		while (code == 0 && ++done < count && !limpet_symbol_is_whole(&s->channel));
	}
	return code == 0 && !limpet_symbol_is_whole(&s->channel) ? -EBADMSG : code;
}

static int begin_answers(struct limpet_symbolizer *s, const uint64_t *addresses, size_t count)
{
	int code = limpet_reserve(&s->answers, &s->answer_capacity, count, sizeof(*s->answers));

	s->frame_count = s->answer_count = s->next = 0;
	for (size_t i = 0; i < count && code == 0; i++)
		s->answers[i] = (struct answer){.address = addresses[i]};
	return code;
}

void limpet_symbolizer_prepare(struct limpet_symbolizer *s, const uint64_t *addresses, size_t count)
{
	int code;

	if (count > LIMPET_SYMBOLIZER_BATCH)
		count = LIMPET_SYMBOLIZER_BATCH;
	code = begin_answers(s, addresses, count);
	if (s->failure || !count)
		return;
	begin_wait(s);
	limpet_symbol_append(&s->channel, count);
	for (size_t i = 0; i < count; i++)
		limpet_symbol_append(&s->channel, addresses[i]);
	if (code == 0)
		code = limpet_symbol_send(&s->channel, LIMPET_SYMBOL_RESOLVE, -1);
	if (code == 0)
		code = receive_answers(s, count);
	if (code < 0)
		give_up(s, code);
	else
		s->answer_count = count;
}

static const struct answer *find_answer(struct limpet_symbolizer *s, uint64_t address)
{
	for (size_t i = 0; i < s->answer_count; i++) {
		size_t at = (s->next + i) % s->answer_count;

		if (s->answers[at].address == address) {
			s->next = at + 1;
			return &s->answers[at];
		}
	}
	return NULL;
}

int limpet_symbolizer_resolve(struct limpet_symbolizer *s, uint64_t address,
			      const struct limpet_symbol **ret_list)
{
	const struct answer *answer = find_answer(s, address);

	if (!answer && !s->is_map) {
		limpet_symbolizer_prepare(s, &address, 1);
		answer = find_answer(s, address);
	}
	*ret_list = answer ? s->frames + answer->first : NULL;
	return answer ? answer->count : 0;
}

static int query_variable(struct limpet_symbolizer *s, uint64_t address,
			  struct limpet_symbol_variable *ret)
{
	struct limpet_symbol_variable found;
	int code;

	begin_wait(s);
	limpet_symbol_append(&s->channel, address);
	code = limpet_symbol_send(&s->channel, LIMPET_SYMBOL_VARIABLE, -1);
	if (code == 0)
		code = receive(s, LIMPET_SYMBOL_FOUND);
	if (code < 0)
		return code;
	found.start = limpet_symbol_read(&s->channel);
	found.bytes = limpet_symbol_read(&s->channel);
	found.line = (uint32_t)limpet_cursor_limited(&s->channel.cursor, UINT32_MAX);
	found.name = read_text(s);
	found.file = read_text(s);
	if (!limpet_symbol_is_whole(&s->channel) || found.start > address)
		return -EBADMSG;
	*ret = found;
	return 0;
}

bool limpet_symbolizer_variable(struct limpet_symbolizer *s, uint64_t address,
				struct limpet_symbol_variable *ret_variable)
{
	struct limpet_symbol_variable found;
	int code = s->failure || s->is_map ? -ENOENT : query_variable(s, address, &found);

	if (code < 0 && code != -ENOENT)
		give_up(s, code);
	if (code < 0 || !found.name)
		return false;
	*ret_variable = found;
	return true;
}

/* ------------------------------------------------------------------ perf maps */

static int request_map(struct limpet_symbolizer *s, int fd, const uint64_t *addresses, size_t count)
{
	const enum limpet_symbol_message_type type =
		s->is_script ? LIMPET_SYMBOL_SCRIPT : LIMPET_SYMBOL_MAP;
	uint64_t last = 0;
	size_t done = 0;
	int code;

	begin_wait(s);
	do {
		size_t some = count - done < MAP_STEP ? count - done : MAP_STEP;

		limpet_symbol_append(&s->channel, some);
		for (size_t i = done; i < done + some; i++) {
			limpet_symbol_append(&s->channel, addresses[i] - last);
			last = addresses[i];
		}
		done += some;
		code = limpet_symbol_send(&s->channel, type, done == count ? fd : -1);
	} while (code == 0 && done < count);
	if (code == 0)
		code = receive(s, LIMPET_SYMBOL_DONE);
	return code;
}

/* Asks for all at once. */
static int read_map(struct limpet_symbolizer *s, int fd, const uint64_t *addresses, size_t count)
{
	int code = begin_answers(s, addresses, count);

	s->is_map = true;
	if (code == 0)
		code = start_worker(s);
	if (code == 0)
		code = request_map(s, fd, addresses, count);
	if (code == 0)
		code = limpet_symbol_read(&s->channel) ? -ENOENT : 0;
	if (code == 0)
		code = receive_answers(s, count);
	if (code < 0)
		return code;
	s->answer_count = count;
	end_worker(s);
	return 0;
}

int limpet_symbolizer_read_map(int fd, const uint64_t *addresses, size_t count,
			       const volatile sig_atomic_t *cancel, struct limpet_symbolizer **ret)
{
	struct limpet_symbolizer *s = symbolizer_new(cancel);
	int code = s ? read_map(s, fd, addresses, count) : -ENOMEM;

	if (code < 0) {
		limpet_symbolizer_close(s);
		return code == -EINTR || code == -ENOMEM ? code : -EPROTO;
	}
	*ret = s;
	return 0;
}

/* ------------------------------------------------------------------ source maps */

/* Without "." and "..": in place. */
static void normalize(char *path)
{
	char *to = path;

	for (const char *at = path; *at;) {
		const size_t length = strcspn(at + 1, "/") + 1;

		if (length == 3 && !memcmp(at, "/..", 3)) {
			while (to > path && *--to != '/')
				;
		} else if (length > 1 && !(length == 2 && at[1] == '.')) {
			memmove(to, at, length);
			to += length;
		}
		at += length;
	}
	*to = '\0';
}

/* A map names its sources as seen from itself. */
static int find_sources(struct limpet_symbolizer *s)
{
	for (size_t i = 0; i < s->frame_count; i++) {
		const char *file = s->frames[i].file;
		LIMPET_FREE char *path = file ? path_from(s->debug_path ?: s->path, file) : NULL;

		/* "webpack://shop/./chain.ts" stays as it is. */
		if (!path || *path != '/')
			continue;
		normalize(path);
		s->frames[i].file = limpet_texts_keep(&s->texts, path);
		if (!s->frames[i].file)
			return -ENOMEM;
	}
	return 0;
}

static int read_script(struct limpet_symbolizer *s, const char *root, const char *path,
		       const uint64_t *places, size_t count)
{
	LIMPET_CLOSE int fd = -1;
	int code;

	s->is_script = true;
	s->path = strdup(path);
	s->root = root ? strdup(root) : NULL;
	if (!s->path || (root && !s->root))
		return -ENOMEM;
	fd = limpet_open_regular(root, path, 0, NULL);
	if (fd < 0)
		return -ENOENT;
	code = read_map(s, fd, places, count);
	return code < 0 ? code : find_sources(s);
}

int limpet_symbolizer_read_script(const char *root, const char *path, const uint64_t *places,
				  size_t count, const volatile sig_atomic_t *cancel,
				  struct limpet_symbolizer **ret)
{
	struct limpet_symbolizer *s = symbolizer_new(cancel);
	int code = s ? read_script(s, root, path, places, count) : -ENOMEM;

	if (code < 0) {
		limpet_symbolizer_close(s);
		return code == -EINTR || code == -ENOMEM || code == -ENOENT ? code : -EPROTO;
	}
	*ret = s;
	return 0;
}
