#include "analyzer/model/namer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "analyzer/symbols/symbolize.h"
#include "common/array.h"
#include "common/clock.h"

/* Addresses between two checks for the end. */
#define STEP 64u
#define NICE 10
/* Modules that are open at a time, each with a process of its own. */
#define OPEN_FILES 32u
/* Between two reads of the map: a program may compile all the time. */
#define MAP_PAUSE_NS 5000000000ull

struct wish {
	uint64_t address;
	uint32_t module; /* 0: JIT-compiled code */
};

/* The thread's copy of one module: the model's own list moves. */
struct file {
	char *path;
	uint8_t *build_id;
	size_t build_id_bytes;
	struct limpet_file_identity identity;
	uint64_t bias;
	struct limpet_symbolizer *symbolizer;
	uint64_t used; /* value of `uses` at its last use */
	bool failed;
};

struct limpet_namer {
	char *root;
	int perf_map_fd;
	pthread_t thread;
	bool started;
	volatile sig_atomic_t cancel;
	/* Used only by the thread: addresses of JIT-compiled code that wait for the next read of
	 * the map. */
	struct wish *made;
	size_t made_count, made_capacity;
	uint64_t map_read_ns; /* 0: it was not read yet */
	struct file *open[OPEN_FILES];
	uint64_t uses;
	/* Used only by the asking side: nodes already processed, addresses already requested (open
	 * addressing; address 0 is free). */
	uint32_t nodes;
	struct wish *known;
	size_t known_count, known_capacity;
	/* Under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t wished;
	struct wish *queue;
	size_t queue_count, queue_capacity;
	struct file **files; /* by module; each belongs to the thread once it is added */
	uint32_t file_count;
	size_t file_capacity;
	struct limpet_model_symbols *found;
	bool found_any, ending;
	size_t left; /* addresses that were requested, and not looked up yet */
	pthread_cond_t served;
};

/* ------------------------------------------------------------------ the thread's side */

static bool is_ending(struct limpet_namer *namer)
{
	bool ending;

	pthread_mutex_lock(&namer->lock);
	ending = namer->ending;
	pthread_mutex_unlock(&namer->lock);
	return ending;
}

static void deliver(struct limpet_namer *namer, const struct wish *wish,
		    const struct limpet_model_frame *frames, uint32_t count)
{
	pthread_mutex_lock(&namer->lock);
	/* If out of memory, it stays without a name. */
	if (limpet_model_symbols_add(namer->found, wish->module, wish->address, frames, count) == 0)
		namer->found_any = true;
	pthread_mutex_unlock(&namer->lock);
}

static void count_served(struct limpet_namer *namer, size_t count)
{
	pthread_mutex_lock(&namer->lock);
	namer->left -= count;
	if (!namer->left)
		pthread_cond_signal(&namer->served);
	pthread_mutex_unlock(&namer->lock);
}

static struct file *file_of(struct limpet_namer *namer, uint32_t module)
{
	struct file *file;

	pthread_mutex_lock(&namer->lock);
	file = module < namer->file_count ? namer->files[module] : NULL;
	pthread_mutex_unlock(&namer->lock);
	return file;
}

/* Closes the least recently used one. */
static void close_one(struct limpet_namer *namer)
{
	struct file **oldest = NULL;

	for (size_t i = 0; i < OPEN_FILES; i++)
		if (namer->open[i] && (!oldest || namer->open[i]->used < (*oldest)->used))
			oldest = &namer->open[i];
	if (!oldest)
		return;
	limpet_symbolizer_close((*oldest)->symbolizer);
	(*oldest)->symbolizer = NULL;
	*oldest = NULL;
}

static void remember_open(struct limpet_namer *namer, struct file *file)
{
	for (unsigned tries = 0; tries < 2; tries++) {
		for (size_t i = 0; i < OPEN_FILES; i++) {
			if (namer->open[i])
				continue;
			namer->open[i] = file;
			return;
		}
		close_one(namer);
	}
}

/* NULL: there is no file to read. */
static struct file *open_file(struct limpet_namer *namer, uint32_t module)
{
	struct file *file = file_of(namer, module);

	if (!file || file->failed || file->path[0] == '[')
		return NULL;
	if (!file->symbolizer) {
		const struct limpet_symbolizer_options options = {
			.path = file->path,
			.fd = -1,
			.build_id = file->build_id_bytes ? file->build_id : NULL,
			.build_id_bytes = file->build_id_bytes,
			.identity = &file->identity,
			.root = namer->root,
			.cancel = &namer->cancel,
		};

		file->failed = limpet_symbolizer_open(&options, &file->symbolizer, NULL) < 0;
		if (file->failed)
			return NULL;
		remember_open(namer, file);
	}
	file->used = ++namer->uses;
	return file;
}

/* Addresses are return addresses: the call is before them. */
static uint64_t call_address(const struct wish *wish, const struct file *file)
{
	return wish->address - 1 - file->bias;
}

static void look_up(struct limpet_namer *namer, const struct wish *wish, struct file *file)
{
	struct limpet_model_frame frames[LIMPET_SYMBOL_MAX_INLINED];
	const struct limpet_symbol *found;
	int count = limpet_symbolizer_resolve(file->symbolizer, call_address(wish, file), &found);

	if (count <= 0)
		return;
	for (int i = 0; i < count; i++)
		frames[i] = (struct limpet_model_frame){.function = found[i].function,
							.file = found[i].file,
							.line = found[i].line,
							.inlined = found[i].inlined};
	deliver(namer, wish, frames, (uint32_t)count);
}

/* All of the same module. */
static void look_up_some(struct limpet_namer *namer, const struct wish *list, size_t count)
{
	struct file *file = open_file(namer, list->module);
	uint64_t addresses[STEP];

	if (!file)
		return;
	for (size_t i = 0; i < count; i++)
		addresses[i] = call_address(&list[i], file);
	limpet_symbolizer_prepare(file->symbolizer, addresses, count);
	/* A file that ended its reader would also end the next one. */
	file->failed = limpet_symbolizer_failure(file->symbolizer) != 0;
	for (size_t i = 0; i < count; i++)
		look_up(namer, &list[i], file);
}

static int compare_wishes(const void *a, const void *b)
{
	const struct wish *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* Looks up all waiting addresses in one read of the map. */
static void look_up_made(struct limpet_namer *namer)
{
	LIMPET_FREE uint64_t *calls = calloc(namer->made_count + 1, sizeof(*calls));
	struct limpet_symbolizer *map = NULL;

	if (calls) {
		qsort(namer->made, namer->made_count, sizeof(*namer->made), compare_wishes);
		for (size_t i = 0; i < namer->made_count; i++)
			calls[i] = namer->made[i].address - 1;
		if (limpet_symbolizer_read_map(namer->perf_map_fd, calls, namer->made_count,
					       &namer->cancel, &map) < 0)
			map = NULL;
	}
	for (size_t i = 0; map && i < namer->made_count; i++) {
		const struct limpet_symbol *found;
		struct limpet_model_frame frame;

		if (limpet_symbolizer_resolve(map, calls[i], &found) <= 0)
			continue;
		frame = (struct limpet_model_frame){
			.function = found->function, .file = found->file, .line = found->line};
		deliver(namer, &namer->made[i], &frame, 1);
	}
	limpet_symbolizer_close(map);
	count_served(namer, namer->made_count);
	namer->made_count = 0;
	namer->map_read_ns = limpet_monotonic_ns();
}

static bool map_is_due(const struct limpet_namer *namer)
{
	return namer->made_count &&
	       (!namer->map_read_ns || limpet_monotonic_ns() - namer->map_read_ns >= MAP_PAUSE_NS);
}

/* Waits for wishes; returns them, or NULL: the end, or it is time for the map. */
static struct wish *next_wishes(struct limpet_namer *namer, size_t *ret_count)
{
	struct wish *list = NULL;
	struct timespec until;

	pthread_mutex_lock(&namer->lock);
	while (!namer->queue_count && !namer->ending) {
		if (!namer->made_count) {
			pthread_cond_wait(&namer->wished, &namer->lock);
			continue;
		}
		until = limpet_timespec(namer->map_read_ns + MAP_PAUSE_NS);
		if (map_is_due(namer) ||
		    pthread_cond_clockwait(&namer->wished, &namer->lock, CLOCK_MONOTONIC, &until) ==
			    ETIMEDOUT)
			break;
	}
	if (!namer->ending && namer->queue_count) {
		list = namer->queue;
		*ret_count = namer->queue_count;
		namer->queue = NULL;
		namer->queue_count = namer->queue_capacity = 0;
	}
	pthread_mutex_unlock(&namer->lock);
	return list;
}

/* Returns how many of them need no look-up: there is no map, or no memory. */
static size_t keep_made(struct limpet_namer *namer, const struct wish *list, size_t count)
{
	if (namer->perf_map_fd < 0 ||
	    limpet_reserve(&namer->made, &namer->made_capacity, namer->made_count + count,
			   sizeof(*namer->made)) < 0)
		return count;
	memcpy(&namer->made[namer->made_count], list, count * sizeof(*list));
	namer->made_count += count;
	return 0;
}

static void serve(struct limpet_namer *namer, struct wish *list, size_t count)
{
	size_t some;

	/* One module after the other, so that each file is read once. */
	qsort(list, count, sizeof(*list), compare_wishes);
	for (size_t i = 0; i < count && !is_ending(namer); i += some) {
		for (some = 1; some < STEP && i + some < count; some++)
			if (list[i + some].module != list[i].module)
				break;
		if (!list[i].module) {
			count_served(namer, keep_made(namer, &list[i], some));
			continue;
		}
		look_up_some(namer, &list[i], some);
		count_served(namer, some);
	}
}

static void *work(void *context)
{
	struct limpet_namer *namer = context;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	/* On Linux the nice value is per thread. */
	setpriority(PRIO_PROCESS, 0, NICE);
	while (!is_ending(namer)) {
		size_t count = 0;
		struct wish *list = next_wishes(namer, &count);

		if (list)
			serve(namer, list, count);
		free(list);
		if (map_is_due(namer) && !is_ending(namer))
			look_up_made(namer);
	}
	return NULL;
}

/* ------------------------------------------------------------------ the asking side */

int limpet_namer_new(const struct limpet_namer_options *options, struct limpet_namer **ret_namer)
{
	struct limpet_namer *namer = calloc(1, sizeof(*namer));

	if (!namer) {
		if (options->perf_map_fd >= 0)
			close(options->perf_map_fd);
		return -ENOMEM;
	}
	pthread_mutex_init(&namer->lock, NULL);
	pthread_cond_init(&namer->wished, NULL);
	pthread_cond_init(&namer->served, NULL);
	namer->perf_map_fd = options->perf_map_fd;
	namer->root = options->root ? strdup(options->root) : NULL;
	namer->found = limpet_model_symbols_none();
	if ((options->root && !namer->root) || !namer->found) {
		limpet_namer_free(namer);
		return -ENOMEM;
	}
	if (pthread_create(&namer->thread, NULL, work, namer) != 0) {
		limpet_namer_free(namer);
		return -EAGAIN;
	}
	namer->started = true;
	*ret_namer = namer;
	return 0;
}

void limpet_namer_free(struct limpet_namer *namer)
{
	if (!namer)
		return;
	namer->cancel = 1;
	pthread_mutex_lock(&namer->lock);
	namer->ending = true;
	pthread_cond_signal(&namer->wished);
	pthread_mutex_unlock(&namer->lock);
	if (namer->started)
		pthread_join(namer->thread, NULL);
	for (uint32_t i = 0; i < namer->file_count; i++) {
		struct file *file = namer->files[i];

		if (!file)
			continue;
		limpet_symbolizer_close(file->symbolizer);
		free(file->path);
		free(file->build_id);
		free(file);
	}
	if (namer->perf_map_fd >= 0)
		close(namer->perf_map_fd);
	limpet_model_symbols_free(namer->found);
	pthread_cond_destroy(&namer->wished);
	pthread_cond_destroy(&namer->served);
	pthread_mutex_destroy(&namer->lock);
	free(namer->files);
	free(namer->queue);
	free(namer->made);
	free(namer->known);
	free(namer->root);
	free(namer);
}

static struct file *new_file(const struct limpet_trace_module *module)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->path = strdup(module->path);
	file->build_id = malloc(module->build_id_bytes + 1ul);
	if (!file->path || !file->build_id) {
		free(file->path);
		free(file->build_id);
		free(file);
		return NULL;
	}
	if (module->build_id_bytes)
		memcpy(file->build_id, module->build_id, module->build_id_bytes);
	file->build_id_bytes = module->build_id_bytes;
	file->identity = module->identity;
	file->bias = module->bias;
	return file;
}

/* Under the lock. */
static int add_files(struct limpet_namer *namer, const struct limpet_model *model)
{
	int code = limpet_reserve(&namer->files, &namer->file_capacity, model->module_count,
				  sizeof(struct file *));

	if (code < 0)
		return code;
	for (; namer->file_count < model->module_count; namer->file_count++) {
		const struct limpet_trace_module *module = &model->modules[namer->file_count];

		namer->files[namer->file_count] = module->number ? new_file(module) : NULL;
	}
	return 0;
}

static size_t slot_of(const struct limpet_namer *namer, const struct wish *wish)
{
	uint64_t hash = (wish->address ^ (uint64_t)wish->module << 48) * 0x9e3779b97f4a7c15ull;
	size_t at = (size_t)(hash ^ hash >> 32) & (namer->known_capacity - 1);

	while (namer->known[at].address && (namer->known[at].address != wish->address ||
					    namer->known[at].module != wish->module))
		at = (at + 1) & (namer->known_capacity - 1);
	return at;
}

static int grow_known(struct limpet_namer *namer)
{
	struct wish *before = namer->known;
	const size_t capacity = namer->known_capacity;

	if (2 * namer->known_count < capacity)
		return 0;
	namer->known_capacity = capacity ? 2 * capacity : 1024;
	namer->known = calloc(namer->known_capacity, sizeof(*namer->known));
	if (!namer->known) {
		namer->known = before;
		namer->known_capacity = capacity;
		return -ENOMEM;
	}
	for (size_t i = 0; i < capacity; i++)
		if (before[i].address)
			namer->known[slot_of(namer, &before[i])] = before[i];
	free(before);
	return 0;
}

/* Under the lock. */
static int add_wishes(struct limpet_namer *namer, const struct limpet_model *model)
{
	int code = add_files(namer, model);

	for (; namer->nodes < model->node_count && code == 0; namer->nodes++) {
		const struct limpet_trace_node *node = &model->nodes[namer->nodes];
		const struct wish wish = {.address = node->address, .module = node->module};
		size_t at;

		if (!namer->nodes || node->lost || !node->address)
			continue;
		code = grow_known(namer);
		if (code == 0)
			code = limpet_reserve(&namer->queue, &namer->queue_capacity,
					      namer->queue_count + 1, sizeof(*namer->queue));
		if (code < 0)
			break;
		at = slot_of(namer, &wish);
		if (namer->known[at].address)
			continue;
		namer->known[at] = wish;
		namer->known_count++;
		namer->queue[namer->queue_count++] = wish;
		namer->left++;
	}
	return code;
}

int limpet_namer_request(struct limpet_namer *namer, const struct limpet_model *model)
{
	int code;

	pthread_mutex_lock(&namer->lock);
	code = add_wishes(namer, model);
	pthread_cond_signal(&namer->wished);
	pthread_mutex_unlock(&namer->lock);
	return code;
}

size_t limpet_namer_wait(struct limpet_namer *namer, unsigned seconds)
{
	const struct timespec until =
		limpet_timespec(limpet_monotonic_ns() + seconds * UINT64_C(1000000000));
	size_t left;

	pthread_mutex_lock(&namer->lock);
	while (namer->left && pthread_cond_clockwait(&namer->served, &namer->lock, CLOCK_MONOTONIC,
						     &until) != ETIMEDOUT)
		;
	left = namer->left;
	pthread_mutex_unlock(&namer->lock);
	return left;
}

int limpet_namer_collect(struct limpet_namer *namer, struct limpet_model_symbols *symbols)
{
	int code = 0;

	pthread_mutex_lock(&namer->lock);
	if (namer->found_any)
		code = limpet_model_symbols_move(symbols, namer->found);
	if (code == 0 && namer->found_any)
		code = 1;
	if (code == 1)
		namer->found_any = false;
	pthread_mutex_unlock(&namer->lock);
	if (code == 1)
		limpet_model_symbols_settle(symbols);
	return code;
}

int limpet_namer_name_model(struct limpet_namer *namer, struct limpet_model *model,
			    unsigned seconds)
{
	int code = limpet_namer_request(namer, model);

	if (code < 0)
		return code;
	model->names_looked_up = true;
	model->names_left = limpet_namer_wait(namer, seconds);
	code = limpet_namer_collect(namer, limpet_model_symbol_table(model));
	return code < 0 ? code : 0;
}
