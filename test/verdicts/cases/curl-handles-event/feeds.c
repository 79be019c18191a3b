/* Fetches feeds from a timer of libevent. If a fetch fails, its easy handle is not cleaned up. */
#include <curl/curl.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct feed {
	char url[512];
	char *text;
	size_t length;
	unsigned failures;
};

static struct feed feeds[8];
static unsigned fetches, lost;

static size_t on_body(char *data, size_t size, size_t count, void *closure)
{
	struct feed *feed = closure;

	feed->text = realloc(feed->text, feed->length + size * count);
	memcpy(feed->text + feed->length, data, size * count);
	feed->length += size * count;
	return size * count;
}

static void report_failure(struct feed *feed, CURLcode code)
{
	char *line = malloc(600);

	snprintf(line, 600, "%s: %s", feed->url, curl_easy_strerror(code));
	feed->failures += line[0] != 0;
	free(line);
}

static void refresh_feed(struct feed *feed)
{
	CURL *curl = curl_easy_init();
	CURLcode code;

	free(feed->text);
	feed->text = NULL;
	feed->length = 0;
	curl_easy_setopt(curl, CURLOPT_URL, feed->url);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, feed);
	code = curl_easy_perform(curl);
	if (code != CURLE_OK) {
		report_failure(feed, code);
		lost++;
		return;
	}
	curl_easy_cleanup(curl);
}

static void on_timer(evutil_socket_t fd, short what, void *closure)
{
	(void)fd;
	(void)what;
	(void)closure;
	refresh_feed(&feeds[fetches++ % 8]);
	if (fetches == 40) {
		puts("ready");
		fflush(stdout);
	}
}

static void on_end(evutil_socket_t fd, short what, void *base)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(base);
}

int main(int argc, char **argv)
{
	struct event_base *base = event_base_new();
	struct timeval period = {0, 20000};

	(void)argc;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	for (int i = 0; i < 8; i++)
		snprintf(feeds[i].url, sizeof(feeds[i].url), "file://%s/%s", argv[1],
			 i % 2 ? "feed.xml" : "gone.xml");
	event_add(event_new(base, -1, EV_PERSIST, on_timer, NULL), &period);
	event_add(evsignal_new(base, SIGTERM, on_end, base), NULL);
	event_base_dispatch(base);
	fprintf(stderr, "%u fetches, %u handles lost\n", fetches, lost);
	return 0;
}
