/* Starts a watcher thread for each client, and forgets to stop it when the client leaves. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct client {
	pthread_mutex_t lock;
	pthread_cond_t left;
	int has_left;
	unsigned number;
};

static size_t threads;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}
static long rss_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

static __attribute__((noinline)) unsigned parse_events(unsigned number)
{
	volatile char buffer[150000];
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(buffer); i += 512) {
		buffer[i] = (char)(number + i);
		sum += (unsigned)buffer[i];
	}
	return sum;
}

static void *watch_client(void *closure)
{
	struct client *client = closure;

	client->number += parse_events(client->number);
	pthread_mutex_lock(&client->lock);
	while (!client->has_left)
		pthread_cond_wait(&client->left, &client->lock);
	pthread_mutex_unlock(&client->lock);
	free(client);
	return NULL;
}

static __attribute__((noinline)) void accept_client(unsigned number)
{
	struct client *client = calloc(1, sizeof(*client));
	pthread_t thread;

	client->number = number;
	pthread_mutex_init(&client->lock, NULL);
	pthread_cond_init(&client->left, NULL);
	if (pthread_create(&thread, NULL, watch_client, client))
		abort();
	threads++;
	if (number % 4 ==
	    0) { /* the others leave without a word, and nobody says so to the thread */
		pthread_mutex_lock(&client->lock);
		client->has_left = 1;
		pthread_cond_signal(&client->left);
		pthread_mutex_unlock(&client->lock);
		pthread_join(thread, NULL);
		threads--;
	}
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		accept_client(number);
		if (number == 60) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 50000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%zu threads wait; RSS %ld KiB\n", threads, rss_kib());
	return 0;
}
