#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

/* A relay on libuv: a server and its client in one loop. A request's write is freed in its
 * callback, its log line never. */
struct write {
	uv_write_t request;
	char *data;
};

struct line {
	struct line *next;
	char text[1200];
};

static struct line *log_lines;
static unsigned long echoed;
static uv_tcp_t server, peer, client;
static uv_connect_t connecting;

static void on_written(uv_write_t *request, int status)
{
	struct write *write = (struct write *)request;

	(void)status;
	free(write->data);
	free(write);
}

static void send_text(uv_stream_t *to, const char *text, size_t size)
{
	struct write *write = malloc(sizeof(*write));
	uv_buf_t buffer;

	write->data = malloc(size);
	memcpy(write->data, text, size);
	buffer = uv_buf_init(write->data, (unsigned)size);
	uv_write(&write->request, to, &buffer, 1, on_written);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
	(void)handle;
	*buffer = uv_buf_init(malloc(wanted), (unsigned)wanted);
}

__attribute__((noinline)) void access_log(const char *text, ssize_t size)
{
	struct line *line = malloc(sizeof(*line));

	snprintf(line->text, sizeof(line->text), "GET %.*s", (int)size, text);
	line->next = log_lines;
	log_lines = line;
	echoed++;
}

static void on_request(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
	if (size > 0) {
		access_log(buffer->base, size);
		send_text(stream, buffer->base, (size_t)size);
	}
	free(buffer->base);
}

static void on_answer(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
	(void)stream;
	(void)size;
	free(buffer->base);
}

static void on_tick(uv_timer_t *timer)
{
	send_text((uv_stream_t *)&client, "/index.html", 11);
	if (echoed % 250 == 0)
		fprintf(stderr, "%lu requests, %lu bytes of log\n", echoed,
			echoed * sizeof(struct line));
	if (echoed == 100) {
		puts("ready");
		fflush(stdout);
	}
	(void)timer;
}

static void on_connected(uv_connect_t *request, int status)
{
	static uv_timer_t timer;

	if (status != 0)
		exit(1);
	uv_read_start((uv_stream_t *)&client, on_alloc, on_answer);
	uv_timer_init(request->handle->loop, &timer);
	uv_timer_start(&timer, on_tick, 8, 8);
}

static void on_connection(uv_stream_t *listener, int status)
{
	if (status != 0)
		exit(1);
	uv_tcp_init(listener->loop, &peer);
	uv_accept(listener, (uv_stream_t *)&peer);
	uv_read_start((uv_stream_t *)&peer, on_alloc, on_request);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct sockaddr_storage bound;
	int size = sizeof(bound);
	struct sockaddr_in any;

	uv_ip4_addr("127.0.0.1", 0, &any);
	uv_tcp_init(loop, &server);
	uv_tcp_bind(&server, (struct sockaddr *)&any, 0);
	uv_listen((uv_stream_t *)&server, 4, on_connection);
	uv_tcp_getsockname(&server, (struct sockaddr *)&bound, &size);
	uv_tcp_init(loop, &client);
	uv_tcp_connect(&connecting, &client, (struct sockaddr *)&bound, on_connected);
	return uv_run(loop, UV_RUN_DEFAULT);
}
