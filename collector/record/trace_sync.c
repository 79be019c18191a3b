#include "collector/record/trace_sync.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"

struct limpet_trace_sync {
	int fd;
	uint64_t interval_ns, last_ns;
	bool threaded;
	pthread_t thread;
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool wanted, ending;
	int error;
};

struct limpet_trace_sync *limpet_trace_sync_new(int fd, uint64_t interval_ns)
{
	struct limpet_trace_sync *sync = calloc(1, sizeof(*sync));

	if (!sync)
		return NULL;
	sync->fd = fd;
	sync->interval_ns = interval_ns;
	sync->last_ns = limpet_monotonic_ns();
	pthread_mutex_init(&sync->lock, NULL);
	pthread_cond_init(&sync->wake, NULL);
	return sync;
}

/* EINVAL and EROFS: the file does not support syncing, fdatasync(2). Ignored. */
static int sync_file(const struct limpet_trace_sync *sync)
{
	while (fdatasync(sync->fd) < 0)
		if (errno != EINTR)
			return errno == EINVAL || errno == EROFS ? 0 : -errno;
	return 0;
}

static void *work(void *data)
{
	struct limpet_trace_sync *sync = data;

	prctl(PR_SET_NAME, "limpet-sync");
	pthread_mutex_lock(&sync->lock);
	for (;;) {
		int error;

		while (!sync->wanted && !sync->ending)
			pthread_cond_wait(&sync->wake, &sync->lock);
		if (sync->ending)
			break;
		/* Cleared before the sync: if another falls due meanwhile, this one may miss its
		 * data. */
		sync->wanted = false;
		pthread_mutex_unlock(&sync->lock);
		error = sync_file(sync);
		pthread_mutex_lock(&sync->lock);
		if (error < 0)
			sync->error = error;
	}
	pthread_mutex_unlock(&sync->lock);
	return NULL;
}

static bool start_thread(struct limpet_trace_sync *sync)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	sync->threaded = pthread_create(&sync->thread, NULL, work, sync) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return sync->threaded;
}

int limpet_trace_sync_wrote(struct limpet_trace_sync *sync)
{
	uint64_t time_ns = limpet_monotonic_ns();
	int error;

	if (time_ns - sync->last_ns >= sync->interval_ns) {
		sync->last_ns = time_ns;
		if (!sync->threaded && !start_thread(sync))
			sync->error = sync_file(sync);
	} else {
		time_ns = 0;
	}
	pthread_mutex_lock(&sync->lock);
	if (time_ns && sync->threaded) {
		sync->wanted = true;
		pthread_cond_signal(&sync->wake);
	}
	error = sync->error;
	pthread_mutex_unlock(&sync->lock);
	return error;
}

void limpet_trace_sync_free(struct limpet_trace_sync *sync)
{
	if (!sync)
		return;
	if (sync->threaded) {
		pthread_mutex_lock(&sync->lock);
		sync->ending = true;
		pthread_cond_signal(&sync->wake);
		pthread_mutex_unlock(&sync->lock);
		pthread_join(sync->thread, NULL);
	}
	pthread_cond_destroy(&sync->wake);
	pthread_mutex_destroy(&sync->lock);
	free(sync);
}
