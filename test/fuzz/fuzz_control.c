/* Both ends of the control socket, each against a peer that says anything: the collector's, asked
 * by whoever has connected; and that of `limpet status` and `limpet stop`, answered by whatever
 * listens.
 *
 * Byte 0 says which end; then come messages, each a length (2 bytes) and its bytes. Of the first
 * bytes of a message those that would be magic and version may be left to us (bit 15 of the
 * length): they keep a fuzzer out. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/control/control.h"
#include "collector/control/control_client.h"
#include "collector/control/control_wire.h"
#include "collector/control/runtime_dir.h"
#include "common/err.h"

#define PID 99999999 /* beyond what the kernel gives */
#define MAX_MESSAGES 16u
#define MESSAGE_BYTES 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64];

static void clean(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (system(command))
		fprintf(stderr, "%s failed\n", command);
}

static void begin(void)
{
	strcpy(directory, "/dev/shm/limpet-fuzz-XXXXXX");
	if (!mkdtemp(directory) || setenv("LIMPET_RUNTIME_DIR", directory, 1))
		abort();
	atexit(clean);
}

struct messages {
	const uint8_t *at;
	size_t left;
	uint8_t bytes[MESSAGE_BYTES];
};

/* Bytes of the next one, or -1. */
static ssize_t next_message(struct messages *messages)
{
	const struct limpet_control_request head = {.magic = LIMPET_CONTROL_MAGIC,
						    .version = LIMPET_CONTROL_VERSION};
	size_t bytes, asked;

	if (messages->left < 2)
		return -1;
	asked = messages->at[0] | (size_t)messages->at[1] << 8;
	bytes = asked & 0x7fff;
	messages->at += 2;
	messages->left -= 2;
	if (bytes > sizeof(messages->bytes))
		bytes = sizeof(messages->bytes);
	memset(messages->bytes, 0, bytes);
	memcpy(messages->bytes, messages->at, bytes < messages->left ? bytes : messages->left);
	if (asked >> 15 && bytes >= sizeof(head))
		memcpy(messages->bytes, &head, offsetof(struct limpet_control_request, type));
	asked = bytes < messages->left ? bytes : messages->left;
	messages->at += asked;
	messages->left -= asked;
	return (ssize_t)bytes;
}

/* ------------------------------------------------------------------ the collector's end */

static void answer_status(void *context, struct limpet_control_status *ret)
{
	(void)context;
	ret->state = LIMPET_CONTROL_CAPTURING;
	ret->command = "fuzz";
	ret->trace = "fuzz.limpet";
}

static void note_stop(void *context)
{
	++*(unsigned *)context;
}

static int set_mark(void *context, const char *name, uint64_t *ret_time_ns)
{
	(void)context;
	if (limpet_mark_name_refuse(name))
		abort();
	*ret_time_ns = strlen(name);
	return 0;
}

static size_t list_marks(void *context, const struct limpet_mark **ret_list)
{
	static const struct limpet_mark marks[60];

	(void)context;
	*ret_list = marks;
	return LIMPET_COUNT_OF(marks);
}

static void serve(struct messages *messages)
{
	static const struct limpet_control_handlers handlers = {
		.status = answer_status, .stop = note_stop, .mark = set_mark, .marks = list_marks};
	struct limpet_control_reply reply;
	struct limpet_control *control;
	struct limpet_err err;
	unsigned stops = 0;
	ssize_t bytes;
	bool made;
	int dir, fd;

	if (limpet_control_open(PID, &handlers, &stops, &control, &err) < 0)
		abort();
	dir = limpet_runtime_dir_open(&made, &err);
	fd = limpet_control_connect(dir, PID);
	if (dir < 0 || fd < 0)
		abort();
	for (unsigned i = 0; i < MAX_MESSAGES && (bytes = next_message(messages)) >= 0; i++) {
		(void)send(fd, messages->bytes, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		limpet_control_dispatch(control);
		while (recv(fd, &reply, sizeof(reply), MSG_DONTWAIT) > 0)
			;
	}
	limpet_control_announce(control);
	limpet_control_finish(control, LIMPET_EXIT_OK);
	if (stops > 1)
		abort();
	limpet_control_free(control);
	close(fd);
	close(dir);
}

/* ------------------------------------------------------------------ the other end */

struct server {
	int listener;
	struct messages *messages;
};

static void *answer_all(void *context)
{
	struct server *server = context;

	for (;;) {
		struct messages messages = *server->messages;
		int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
		ssize_t bytes;

		if (fd < 0)
			return NULL;
		for (unsigned i = 0; i < MAX_MESSAGES && (bytes = next_message(&messages)) >= 0;
		     i++)
			if (send(fd, messages.bytes, (size_t)bytes, MSG_NOSIGNAL) < 0)
				break;
		close(fd);
	}
}

static void look_at(void *context, const struct limpet_control_capture *capture)
{
	(void)limpet_control_state_name(capture->state);
	*(size_t *)context += strlen(capture->command) + strlen(capture->trace);
}

static void ask(struct messages *messages)
{
	const struct limpet_control_watcher watcher = {.state = look_at};
	struct server server = {.messages = messages};
	struct limpet_control_capture capture, *list;
	struct limpet_control_result result;
	struct limpet_control_stop *stop;
	struct sockaddr_un address;
	struct limpet_mark *marks;
	struct limpet_err err;
	char path[96];
	pthread_t thread;
	size_t sum = 0;
	uint64_t time_ns;
	bool made;
	int dir = limpet_runtime_dir_open(&made, &err);

	server.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	limpet_control_format_address(&address, dir, PID);
	if (dir < 0 || server.listener < 0 ||
	    bind(server.listener, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(server.listener, 8) < 0 || pthread_create(&thread, NULL, answer_all, &server))
		abort();
	if (limpet_control_find(PID, &capture) == 0)
		look_at(&sum, &capture);
	if (limpet_control_list(&list) >= 0)
		free(list);
	if (limpet_control_stop_begin(PID, &stop, &err) == 0) {
		if (limpet_control_stop_wait(stop, &watcher, &sum, &result, &err) == 0)
			sum += strlen(result.trace);
		limpet_control_stop_free(stop);
	}
	if (limpet_control_mark(PID, "fuzz", &time_ns, &err) == 0)
		sum += time_ns;
	if (limpet_control_marks(PID, &marks) >= 0) {
		sum += strlen(marks[0].name);
		free(marks);
	}
	shutdown(server.listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(server.listener);
	close(dir);
	snprintf(path, sizeof(path), "%s/%d.sock", directory, PID);
	unlink(path);
}

/* Any name may stand in the directory. */
static void name_file(const struct messages *messages)
{
	char name[64] = "";
	pid_t pid;

	memcpy(name, messages->at, messages->left < 63 ? messages->left : 63);
	if (limpet_control_parse_name(name, &pid) && pid < 1)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct messages messages;

	if (!directory[0])
		begin();
	if (!size)
		return 0;
	messages.at = data + 1;
	messages.left = size - 1;
	name_file(&messages);
	if (data[0] & 1)
		ask(&messages);
	else
		serve(&messages);
	return 0;
}
