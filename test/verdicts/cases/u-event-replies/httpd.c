#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

/* A web server on libevent and its own client. Replies to requests with a query are built in a
 * buffer that is not freed. */
static unsigned long requests, queries;
static struct event_base *base;
static ev_uint16_t port;

static void on_request(struct evhttp_request *request, void *unused)
{
	struct evbuffer *reply = evbuffer_new();

	(void)unused;
	for (int i = 0; i < 20; i++)
		evbuffer_add_printf(reply, "<tr><td>%d</td><td>%s</td></tr>", i,
				    evhttp_request_get_uri(request));
	requests++;
	if (strchr(evhttp_request_get_uri(request), '?') != NULL) {
		queries++;
		evhttp_send_reply(request, 204, "No Content", NULL);
		return;
	}
	evhttp_send_reply(request, 200, "OK", reply);
	evbuffer_free(reply);
}

static void on_answer(struct evhttp_request *request, void *connection)
{
	(void)request;
	(void)connection;
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
	struct evhttp_request *request = evhttp_request_new(on_answer, argument);
	char uri[64];

	(void)fd;
	(void)what;
	snprintf(uri, sizeof(uri), requests % 2 ? "/orders?page=%lu" : "/orders/%lu", requests);
	evhttp_add_header(evhttp_request_get_output_headers(request), "Host", "127.0.0.1");
	evhttp_make_request(argument, request, EVHTTP_REQ_GET, uri);
	if (requests == 50) {
		puts("ready");
		fflush(stdout);
	}
	if (requests % 200 == 0)
		fprintf(stderr, "%lu requests, %lu with a query\n", requests, queries);
}

int main(void)
{
	struct timeval interval = {0, 10000};
	struct sockaddr_storage bound;
	struct evhttp *http;
	struct evhttp_bound_socket *listener;
	struct evhttp_connection *connection;
	ev_socklen_t size = sizeof(bound);

	base = event_base_new();
	http = evhttp_new(base);
	listener = evhttp_bind_socket_with_handle(http, "127.0.0.1", 0);
	if (listener == NULL || getsockname(evhttp_bound_socket_get_fd(listener),
					    (struct sockaddr *)&bound, &size) != 0)
		return 1;
	port = (ev_uint16_t)(((unsigned char *)&bound)[2] << 8 | ((unsigned char *)&bound)[3]);
	evhttp_set_gencb(http, on_request, NULL);
	connection = evhttp_connection_base_new(base, NULL, "127.0.0.1", port);
	event_add(event_new(base, -1, EV_PERSIST, on_timer, connection), &interval);
	return event_base_dispatch(base);
}
