#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

/* A poller of web hooks. On an answer other than the wanted one it returns without
 * curl_easy_cleanup(). */
static unsigned long polls, failed;

static void pace(long ms)
{
	static struct timespec next;

	if (next.tv_sec == 0)
		clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += ms * 1000000;
	while (next.tv_nsec >= 1000000000) {
		next.tv_nsec -= 1000000000;
		next.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
		continue;
}

static size_t on_body(char *data, size_t size, size_t count, void *to)
{
	(void)data;
	*(size_t *)to += size * count;
	return size * count;
}

__attribute__((noinline)) int hook_poll(const char *url)
{
	CURL *easy = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "X-Poller: 1");
	size_t got = 0;

	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &got);
	polls++;
	if (curl_easy_perform(easy) != CURLE_OK) {
		failed++;
		return -1;
	}
	curl_slist_free_all(headers);
	curl_easy_cleanup(easy);
	return (int)got;
}

int main(int argc, char **argv)
{
	char good[300], bad[300];

	snprintf(good, sizeof(good), "file://%s", argv[argc - 1]);
	snprintf(bad, sizeof(bad), "file://%s.missing", argv[argc - 1]);
	curl_global_init(CURL_GLOBAL_ALL);
	hook_poll(good);
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0;; i++) {
		hook_poll(i % 3 == 0 ? bad : good);
		if (i % 50 == 0)
			fprintf(stderr, "%lu polls, %lu failed\n", polls, failed);
		pace(50);
	}
}
