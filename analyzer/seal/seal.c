#include "analyzer/seal/seal.h"

#include <errno.h>
#include <string.h>

#include "analyzer/model/model.h"
#include "analyzer/seal/script_sources.h"
#include "analyzer/seal/trace_append.h"
#include "analyzer/symbols/symbolize.h"
#include "common/clock.h"

/* Addresses between two calls of `progress`. */
#define PROGRESS_STEP 256
/* For all modules together: the end of a capture waits for this. Real programs take seconds. */
#define SEAL_NS (UINT64_C(1200) * 1000000000u)

struct seal {
	const struct limpet_seal_options *options;
	const struct limpet_model *model;
	struct limpet_trace_append *append;
	struct limpet_seal_result result;
	uint64_t done;
	uint64_t began_ns;
	uint32_t listed; /* module whose file is in the trace */
	bool appended;
};

static bool takes_too_long(const struct seal *seal)
{
	return limpet_monotonic_ns() - seal->began_ns > SEAL_NS;
}

static bool is_cancelled(const struct seal *seal)
{
	return seal->options->cancel && *seal->options->cancel;
}

static void report_progress(const struct seal *seal)
{
	if (seal->options->progress)
		seal->options->progress(seal->options->context, seal->done, seal->result.addresses);
}

static int source_fd(const struct seal *seal, uint32_t module)
{
	for (size_t i = 0; i < seal->options->source_count; i++) {
		if (seal->options->sources[i].module == module)
			return seal->options->sources[i].fd;
	}
	return -1;
}

/* Counts what is known of an address, whether it was found now or by a former seal. */
static void count_frames(struct seal *seal, const struct limpet_model_frame *frames, uint32_t count)
{
	if (!count)
		return;
	seal->result.resolved++;
	for (uint32_t i = 0; i < count; i++) {
		if (frames[i].file) {
			seal->result.lines++;
			return;
		}
	}
}

static bool has_lines(const struct limpet_model_frame *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (frames[i].file)
			return true;
	}
	return false;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_frames(const struct limpet_model_frame *a, const struct limpet_model_frame *b,
			uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!same_text(a[i].function, b[i].function) || !same_text(a[i].file, b[i].file) ||
		    a[i].line != b[i].line || a[i].inlined != b[i].inlined)
			return false;
	}
	return true;
}

/* Appends only what is new: otherwise the file would grow with each seal. */
static int append_news(struct seal *seal, const struct limpet_model_address *address,
		       const struct limpet_model_frame *frames, uint32_t count,
		       const struct limpet_model_frame *known, uint32_t known_count)
{
	const struct limpet_trace_module *module = &seal->model->modules[address->module];
	int result = 0;

	if (count == known_count && same_frames(frames, known, count) &&
	    (count || seal->model->symbols_complete))
		return 0;
	if (address->module && seal->listed != address->module)
		result = limpet_trace_append_file(seal->append, address->module, module->path,
						  module->build_id, module->build_id_bytes);
	seal->listed = address->module;
	seal->appended = true;
	return result < 0 ? result
			  : limpet_trace_append_symbol(seal->append, address->module,
						       address->address, frames, count);
}

/* A return address may be after its function's last byte: look up the call. */
static uint64_t call_address(const struct seal *seal, const struct limpet_model_address *address)
{
	return address->address - 1 - seal->model->modules[address->module].bias;
}

static int seal_address(struct seal *seal, struct limpet_symbolizer *symbolizer,
			const struct limpet_model_address *address)
{
	struct limpet_model_frame frames[LIMPET_SYMBOL_MAX_INLINED];
	const struct limpet_model_frame *known = NULL;
	const struct limpet_symbol *found = NULL;
	uint32_t count = 0, known_count;

	known_count = limpet_model_symbols(seal->model, address->module, address->address, &known);
	if (symbolizer)
		count = (uint32_t)limpet_symbolizer_resolve(symbolizer, call_address(seal, address),
							    &found);
	for (uint32_t i = 0; i < count; i++)
		frames[i] = (struct limpet_model_frame){.function = found[i].function,
							.file = found[i].file,
							.line = found[i].line,
							.inlined = found[i].inlined};
	/* A later look-up with less information must not hide what an earlier one found. */
	if (known_count &&
	    (!count || (has_lines(known, known_count) && !has_lines(frames, count)))) {
		count_frames(seal, known, known_count);
		return 0;
	}
	count_frames(seal, frames, count);
	if (!count && !symbolizer)
		return 0;
	return append_news(seal, address, frames, count, known, known_count);
}

/* NULL: the module has no file to read. */
static struct limpet_symbolizer *open_module(struct seal *seal, uint32_t number, uint64_t addresses)
{
	const struct limpet_trace_module *module = &seal->model->modules[number];
	const struct limpet_symbolizer_options options = {
		.path = module->path,
		.fd = source_fd(seal, number),
		.build_id = module->build_id_bytes ? module->build_id : NULL,
		.build_id_bytes = module->build_id_bytes,
		.identity = &module->identity,
		.root = seal->options->root,
		.debug_dirs = seal->options->debug_dirs,
		.debuginfod = seal->options->debuginfod,
		.cancel = seal->options->cancel,
	};
	struct limpet_symbolizer *symbolizer = NULL;
	struct limpet_err err = {0};

	/* "[vdso]" and its like are the kernel's and have no file. */
	if (module->path[0] == '[')
		return NULL;
	seal->result.modules++;
	if (takes_too_long(seal))
		limpet_err_set(&err, -EPROTO, "'%s' is not read: the time is used up",
			       module->path);
	else if (limpet_symbolizer_open(&options, &symbolizer, &err) < 0 && !err.code)
		err.code = -EPROTO;
	if (err.code) {
		if (is_cancelled(seal))
			return NULL;
		seal->result.modules_missing++;
		if (seal->options->missing)
			seal->options->missing(seal->options->context, module->path, addresses,
					       &err);
		return NULL;
	}
	if (limpet_symbolizer_refused(symbolizer) && seal->options->refused)
		seal->options->refused(seal->options->context, module->path,
				       limpet_symbolizer_refused(symbolizer));
	return symbolizer;
}

static void report_failure(struct seal *seal, const struct limpet_symbolizer *symbolizer,
			   uint32_t module, uint64_t addresses)
{
	const char *path = seal->model->modules[module].path;
	struct limpet_err err = {0};

	if (limpet_symbolizer_failure(symbolizer) == -EINTR)
		return;
	limpet_err_set(&err, -EPROTO, "'%s' could not be read any further", path);
	seal->result.modules_missing++;
	if (seal->options->missing)
		seal->options->missing(seal->options->context, path, addresses, &err);
}

static void close_module(struct seal *seal, struct limpet_symbolizer *symbolizer, uint32_t module)
{
	const char *unread = symbolizer ? limpet_symbolizer_unread(symbolizer) : NULL;

	if (unread && seal->options->unread)
		seal->options->unread(seal->options->context, seal->model->modules[module].path,
				      unread);
	limpet_symbolizer_close(symbolizer);
}

/* Prepares as many as are looked up at once, from `first` on. */
static void prepare(const struct seal *seal, struct limpet_symbolizer *symbolizer,
		    const struct limpet_model_address *list, size_t first, size_t count)
{
	uint64_t addresses[LIMPET_SYMBOLIZER_BATCH];
	size_t some = 0;

	for (size_t i = first; i < count && some < LIMPET_COUNT_OF(addresses); i++)
		addresses[some++] = call_address(seal, &list[i]);
	limpet_symbolizer_prepare(symbolizer, addresses, some);
}

/* Seals the addresses of one module; returns 0 or -errno of the trace. */
static int seal_module(struct seal *seal, const struct limpet_model_address *list, size_t count)
{
	struct limpet_symbolizer *symbolizer = open_module(seal, list[0].module, count);
	int result = 0;
	size_t i;

	for (i = 0; i < count && result >= 0 && !is_cancelled(seal); i++) {
		if (symbolizer && i % LIMPET_SYMBOLIZER_BATCH == 0)
			prepare(seal, symbolizer, list, i, count);
		/* The module's reader has ended, or takes too long: the rest stays as it is. */
		if (symbolizer && (limpet_symbolizer_failure(symbolizer) || takes_too_long(seal))) {
			report_failure(seal, symbolizer, list[0].module, count - i);
			close_module(seal, symbolizer, list[0].module);
			symbolizer = NULL;
		}
		if (is_cancelled(seal))
			break;
		result = seal_address(seal, symbolizer, &list[i]);
		seal->done++;
		if (seal->done % PROGRESS_STEP == 0)
			report_progress(seal);
	}
	close_module(seal, symbolizer, list[0].module);
	report_progress(seal);
	return result < 0 ? result : 0;
}

/* Seals JIT-compiled code: the addresses that are in no module. */
static int seal_made(struct seal *seal, const struct limpet_model_address *list, size_t count)
{
	LIMPET_FREE uint64_t *calls = calloc(count + 1, sizeof(*calls));
	struct limpet_symbolizer *map = NULL;
	int result = calls ? 0 : -ENOMEM;

	for (size_t i = 0; calls && i < count; i++)
		calls[i] = list[i].address - 1;
	if (calls)
		result = limpet_symbolizer_read_map(seal->options->perf_map_fd, calls, count,
						    seal->options->cancel, &map);
	/* If the map cannot be read, the rest is still sealed. */
	if (result < 0)
		return result == -ENOMEM ? result : 0;
	seal->result.made = count;
	for (size_t i = 0; i < count && result >= 0; i++) {
		struct limpet_model_frame frame;
		const struct limpet_symbol *found;
		const struct limpet_model_frame *known;
		uint32_t known_count =
			limpet_model_symbols(seal->model, 0, list[i].address, &known);
		bool named = limpet_symbolizer_resolve(map, calls[i], &found) > 0;

		seal->result.made_named += known_count || named;
		if (known_count || !named)
			continue;
		frame = (struct limpet_model_frame){
			.function = found->function, .file = found->file, .line = found->line};
		result = append_news(seal, &list[i], &frame, 1, NULL, 0);
	}
	limpet_symbolizer_close(map);
	return result;
}

static int append_sources(void *context, const struct limpet_model_address *address,
			  const struct limpet_model_frame *frames, uint32_t count)
{
	return append_news(context, address, frames, count, NULL, 0);
}

/* JavaScript that was named in the capture has lines of what it was generated from. */
static int seal_scripts(struct seal *seal, const struct limpet_model_address *list, size_t count)
{
	const struct limpet_script_sources_options options = {.root = seal->options->root,
							      .cancel = seal->options->cancel,
							      .found = append_sources,
							      .context = seal};
	const int code = limpet_script_sources_find(seal->model, list, count, &options);

	return code == -EINTR ? 0 : code;
}

static int seal_all(struct seal *seal)
{
	const struct limpet_model_address *made;
	const struct limpet_model_address *list;
	size_t count = limpet_model_addresses(seal->model, &list);
	size_t first = 0;
	int result = 0;

	/* Module 0 means none, and comes first. */
	for (made = list; count && !list->module; count--)
		list++;
	if (seal->options->has_perf_map && list > made)
		result = seal_made(seal, made, (size_t)(list - made));
	if (result >= 0 && list > made)
		result = seal_scripts(seal, made, (size_t)(list - made));
	seal->result.addresses = count;
	report_progress(seal);
	while (first < count && result >= 0 && !is_cancelled(seal)) {
		size_t end = first + 1;

		while (end < count && list[end].module == list[first].module)
			end++;
		result = seal_module(seal, list + first, end - first);
		first = end;
	}
	seal->result.skipped = count - seal->done;
	seal->result.cancelled = seal->result.skipped > 0;
	return result;
}

int limpet_seal(const char *path, const struct limpet_seal_options *options,
		struct limpet_seal_result *ret_result, struct limpet_err *err)
{
	static const struct limpet_seal_options none;
	struct seal seal = {.options = options ? options : &none,
			    .began_ns = limpet_monotonic_ns()};
	struct limpet_trace_reader *reader = NULL;
	struct limpet_model *model = NULL;
	int result;

	/* Lock first: what is read after it cannot change. */
	result = limpet_trace_append_open(path, &seal.append, err);
	if (result < 0)
		return result;
	result = limpet_trace_reader_open(path, &reader, err);
	if (result >= 0)
		result = limpet_model_build(reader, NULL, &model, err);
	if (result >= 0) {
		seal.model = model;
		result = seal_all(&seal);
		if (result >= 0 &&
		    (seal.appended || (!model->symbols_complete && !seal.result.cancelled)))
			result = limpet_trace_append_finish(
				seal.append, model->symbols_complete || !seal.result.cancelled);
		if (result < 0)
			limpet_err_set(err, result, "cannot write symbols to '%s': %s", path,
				       strerror(-result));
	}
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	limpet_trace_append_free(seal.append);
	if (result < 0)
		return result;
	*ret_result = seal.result;
	return 0;
}
