#include "pool.h"
#include <pthread.h>
#include <stdlib.h>

struct task {
	struct task *next;
	pool_function run;
	void *argument;
};

static struct task *first, **end = &first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;

void pool_submit(pool_function run, void *argument)
{
	struct task *task = malloc(sizeof(*task));

	*task = (struct task){NULL, run, argument};
	pthread_mutex_lock(&lock);
	*end = task;
	end = &task->next;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

static struct task *pool_take(void)
{
	struct task *task;

	pthread_mutex_lock(&lock);
	while (first == NULL)
		pthread_cond_wait(&filled, &lock);
	task = first;
	first = task->next;
	if (first == NULL)
		end = &first;
	pthread_mutex_unlock(&lock);
	return task;
}

static void *pool_worker(void *unused)
{
	for (;;) {
		struct task *task = pool_take();

		task->run(task->argument);
		free(task);
	}
	return unused;
}

void pool_start(int workers)
{
	for (int i = 0; i < workers; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, pool_worker, NULL);
	}
}
