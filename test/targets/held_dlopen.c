/* held-dlopen.so, to be preloaded: a dlopen and a dlclose with a lock of their own, as tools have
 * that look at what a program loads. A thread that takes the lock can keep it. */
#include <dlfcn.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((visibility("default"))) void held_dlopen_hold(void);
void held_dlopen_hold(void)
{
	pthread_mutex_lock(&lock);
}

__attribute__((visibility("default"))) void held_dlopen_release(void);
void held_dlopen_release(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) void *dlopen(const char *path, int mode)
{
	void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	void *handle;

	pthread_mutex_lock(&lock);
	handle = next(path, mode);
	pthread_mutex_unlock(&lock);
	return handle;
}

__attribute__((visibility("default"))) int dlclose(void *handle)
{
	int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
	int answer;

	pthread_mutex_lock(&lock);
	answer = next(handle);
	pthread_mutex_unlock(&lock);
	return answer;
}
