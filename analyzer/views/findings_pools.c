/* Heaps into which limpet does not see: those of language runtimes, and memory that a function
 * takes in large round pieces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_groups.h"
#include "analyzer/views/findings_work.h"
#include "common/array.h"
#include "common/units.h"

#define PAGE 4096u
#define LEAST_MAPPING (64u << 10)
#define LEAST_BLOCK (32u << 10)
#define LEAST_POOL_BYTES (1u << 20)
#define LEAST_CHUNKS 4u
/* Of what one function holds. */
#define CHUNKS_SHARE 0.75
#define POOLS_SHOWN 2u

/* Names of runtimes' files, up to a digit or a dot. */
static const struct {
	const char *file, *words;
} runtimes[] = {
	{"libjvm", "Java objects live in the JVM's own heap"},
	{"beam", "Erlang's terms live in Erlang's own carriers"},
	{"node", "JavaScript objects live in V8's own heap"},
	{"libnode", "JavaScript objects live in V8's own heap"},
	{"php", "PHP's values live in PHP's own heap"},
	{"libphp", "PHP's values live in PHP's own heap"},
	{"php-fpm", "PHP's values live in PHP's own heap"},
	{"libcoreclr", ".NET objects live in the runtime's own heap"},
	{"libmonosgen-2", ".NET objects live in the runtime's own heap"},
	{"ruby", "Ruby's objects live in Ruby's own pages"},
	{"libruby", "Ruby's objects live in Ruby's own pages"},
	{"python",
	 "Python's small objects live in Python's own arenas (unless PYTHONMALLOC=malloc is set)"},
	{"libpython",
	 "Python's small objects live in Python's own arenas (unless PYTHONMALLOC=malloc is set)"},
};

bool limpet_findings_is_file_of(const char *path, const char *file)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;
	const size_t length = strlen(file);

	return name && !strncmp(name, file, length) &&
	       (!name[length] || strchr(".0123456789", name[length]));
}

static const char *find_runtime(const struct limpet_model *model)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(runtimes); i++)
		for (uint32_t module = 1; module < model->module_count; module++)
			if (limpet_findings_is_file_of(model->modules[module].path,
						       runtimes[i].file))
				return runtimes[i].words;
	return NULL;
}

static int say_runtime(struct limpet_findings_work *work, const char *words)
{
	const uint64_t mapped = work->model->totals.mapped_bytes;
	const struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_POOL, .bytes = mapped, .share = -1, .per_second = -1};
	char bytes[LIMPET_UNITS_TEXT];

	if (!mapped)
		return limpet_findings_add(
			work, &finding,
			"%s, which limpet sees as mappings only: no mapping is left that was "
			"made since the capture began, and what older ones hold is not seen.",
			words);
	return limpet_findings_add(work, &finding,
				   "%s, which limpet sees as mappings only: what they hold is not "
				   "seen. Of all mappings that were made since the capture began, "
				   "%s are still there.",
				   words, limpet_findings_bytes(bytes, (double)mapped));
}

/* ------------------------------------------------------------------ pools of the program's own */

/* What one function holds of one kind: blocks, or mappings. */
struct pool {
	uint32_t node; /* of its largest piece */
	uint64_t largest_bytes;
	uint64_t chunks, chunk_bytes, bytes;
	bool mapped;
};

static bool is_chunk(const struct limpet_trace_live *live)
{
	if (live->mapping)
		return live->size >= LEAST_MAPPING && live->size % LEAST_MAPPING == 0;
	/* No block of glibc's malloc(3) begins at a page boundary. */
	return live->size >= LEAST_BLOCK && live->size % PAGE == 0 && live->address % PAGE == 0;
}

struct pools {
	const struct limpet_model *model;
	struct pool *sites, *maps; /* parallel to the model's */
	struct pool *groups;       /* by label: blocks, and mappings */
	size_t capacity;
};

static struct pool *pool_of(const struct pools *pools, const struct limpet_trace_live *live)
{
	const struct limpet_model *model = pools->model;
	size_t at;

	if (live->mapping) {
		at = LIMPET_PARTITION_POINT(i, model->map_count, model->maps[i].node < live->node);
		return at < model->map_count && model->maps[at].node == live->node
			       ? &pools->maps[at]
			       : NULL;
	}
	at = LIMPET_PARTITION_POINT(i, model->site_count, model->sites[i].node < live->node);
	return at < model->site_count && model->sites[at].node == live->node ? &pools->sites[at]
									     : NULL;
}

static void add_piece(struct pool *pool, const struct limpet_trace_live *live)
{
	pool->chunks++;
	pool->chunk_bytes += live->size;
	if (live->size <= pool->largest_bytes)
		return;
	pool->largest_bytes = live->size;
	pool->node = live->node;
}

static int add_block(const struct pools *pools, struct limpet_trace_reader *reader, size_t block)
{
	struct limpet_trace_live *live;
	int64_t count = limpet_trace_live_load(reader, block, &live);

	if (count < 0)
		return count == -EBADMSG ? 0 : (int)count;
	for (int64_t i = 0; i < count; i++) {
		struct pool *pool = is_chunk(&live[i]) ? pool_of(pools, &live[i]) : NULL;

		if (pool)
			add_piece(pool, &live[i]);
	}
	free(live);
	return 0;
}

/* Whether to read single blocks: some captures end with millions. */
static bool may_hold_pools(const struct limpet_model *model)
{
	for (size_t i = 0; i < model->site_count; i++) {
		const struct limpet_model_site *site = &model->sites[i];

		if (site->live_bytes >= LEAST_BLOCK &&
		    site->live_bytes / LEAST_BLOCK >= site->live_allocations)
			return true;
	}
	return model->totals.mapped_bytes >= LEAST_POOL_BYTES;
}

static void add_to_group(struct pool *group, const struct pool *pool, uint64_t bytes, bool mapped)
{
	group->mapped = mapped;
	group->bytes += bytes;
	group->chunks += pool->chunks;
	group->chunk_bytes += pool->chunk_bytes;
	if (pool->largest_bytes <= group->largest_bytes)
		return;
	group->largest_bytes = pool->largest_bytes;
	group->node = pool->node;
}

static int group_all(struct limpet_findings_work *work, struct pools *pools)
{
	const struct limpet_model *model = pools->model;
	struct limpet_findings_groups *groups;
	uint32_t group;
	int code = limpet_findings_groups_new(work->view->locations, &groups);

	if (code < 0)
		return code;
	for (size_t i = 0; i < model->site_count && code == 0; i++) {
		code = limpet_findings_groups_find(groups, model->sites[i].node, &group);
		if (code == 0)
			add_to_group(&pools->groups[2ul * group], &pools->sites[i],
				     model->sites[i].live_bytes, false);
	}
	for (size_t i = 0; i < model->map_count && code == 0; i++) {
		code = limpet_findings_groups_find(groups, model->maps[i].node, &group);
		if (code == 0)
			add_to_group(&pools->groups[2ul * group + 1], &pools->maps[i],
				     model->maps[i].mapped_bytes, true);
	}
	limpet_findings_groups_free(groups);
	return code;
}

static int compare_pools(const void *a, const void *b)
{
	const struct pool *x = a, *y = b;

	return x->chunk_bytes > y->chunk_bytes ? -1 : x->chunk_bytes < y->chunk_bytes;
}

static bool is_pool(const struct pool *pool)
{
	return pool->chunks >= LEAST_CHUNKS && pool->chunk_bytes >= LEAST_POOL_BYTES &&
	       (double)pool->chunk_bytes >= CHUNKS_SHARE * (double)pool->bytes;
}

static int say_pool(struct limpet_findings_work *work, const struct pool *pool)
{
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_POOL,
						.bytes = pool->chunk_bytes,
						.share = -1,
						.per_second = -1};
	char chunks[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = NULL;
	int code = limpet_findings_name(work, pool->node, &finding, &name);

	if (code < 0)
		return code;
	code = limpet_findings_add(
		work, &finding,
		"%s holds %s large round %s, %s: probably a pool, or stacks, and what they hold "
		"is not seen. A program can report its pools: limpet.h.",
		name, limpet_units_format_count(chunks, pool->chunks),
		pool->mapped ? "mappings" : "blocks that begin with a page",
		limpet_findings_bytes(bytes, (double)pool->chunk_bytes));
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

static int look_at_blocks(const struct pools *pools, struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	const size_t count = limpet_trace_reader_blocks(reader, &blocks);
	int code = 0;

	for (size_t i = 0; i < count && code == 0; i++)
		if (blocks[i].type == LIMPET_TRACE_LIVE && !blocks[i].damaged)
			code = add_block(pools, reader, i);
	return code;
}

static int find_pools(struct limpet_findings_work *work, struct limpet_trace_reader *reader)
{
	const struct limpet_model *model = work->model;
	struct pools pools = {.model = model, .capacity = model->site_count + model->map_count + 1};
	int code = -ENOMEM;

	pools.sites = calloc(model->site_count + 1, sizeof(*pools.sites));
	pools.maps = calloc(model->map_count + 1, sizeof(*pools.maps));
	pools.groups = calloc(2 * pools.capacity, sizeof(*pools.groups));
	if (pools.sites && pools.maps && pools.groups)
		code = look_at_blocks(&pools, reader);
	if (code == 0)
		code = group_all(work, &pools);
	if (code == 0)
		qsort(pools.groups, 2 * pools.capacity, sizeof(*pools.groups), compare_pools);
	for (size_t i = 0, shown = 0; code == 0 && i < pools.capacity && shown < POOLS_SHOWN; i++)
		if (is_pool(&pools.groups[i])) {
			code = say_pool(work, &pools.groups[i]);
			shown++;
		}
	free(pools.sites);
	free(pools.maps);
	free(pools.groups);
	return code;
}

int limpet_findings_add_pools(struct limpet_findings *findings, const struct limpet_view *view,
			      struct limpet_trace_reader *reader)
{
	struct limpet_findings_work work = {
		.view = view, .model = view->locations->model, .findings = findings};
	const char *runtime = find_runtime(work.model);

	/* Pages are seen whatever heap they belong to. */
	if (work.model->target->pages)
		return 0;
	if (runtime)
		return say_runtime(&work, runtime);
	/* The blocks at the end are those of the whole capture. */
	return work.model->windowed || work.model->sample_bytes || !may_hold_pools(work.model)
		       ? 0
		       : find_pools(&work, reader);
}
