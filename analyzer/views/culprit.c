#include "analyzer/views/culprit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/base_name.h"
#include "common/begins.h"

/* A culprit has this share of the weight; if no function has, the next one. Less is many. */
static const double shares[] = {0.8, 0.6, 0.4, 0.25, 0.1};
/* So much of its weight is below itself: it is recursive, and who calls it says more. */
#define RECURSIVE_SHARE 0.05
/* Fewer of its calls than this come from callers that have weight: others use it, too. */
#define HELPER_SHARE 0.5

/* ------------------------------------------------------------------ names */

/* Above all stacks of a program: to name one of these says nothing. By their beginnings. */
static const char *const dispatchers[] = {
	/* C and C++ */
	"main",
	"uv_run",
	"uv__",
	"event_base_",
	"event_process_active",
	"g_main_",
	"g_application_run",
	"aeMain",
	"aeProcessEvents",
	"processInputBuffer",
	"processCommand",
	"readQueryFromClient",
	"connSocketEventHandler",
	"ev_run",
	"ev_invoke_pending",
	"boost::asio::",
	"ServerLoop",
	"PostmasterMain",
	"PostgresMain",
	"BackendStartup",
	"BackendMain",
	"BackendRun",
	"PortalRun",
	"std::thread",
	"std::function",
	"tokio::",
	"rayon_core::",
	"g_thread_proxy",
	"call_fn",
	/* interpreters */
	"PyEval_",
	"_PyEval_",
	"PyRun_",
	"_PyRun_",
	"pyrun_",
	"Py_",
	"pymain_",
	"PyObject_Call",
	"_PyObject_",
	"PyObject_Vectorcall",
	"cfunction_",
	"method_vectorcall",
	"function_code_fastcall",
	"_PyFunction_",
	"_call_function_pointer",
	"PyCFuncPtr_call",
	"ffi_call",
	"_ctypes_callproc",
	"run_eval_code_obj",
	"run_mod",
	"run_",
	"slot_tp_",
	"type_call",
	"builtin_exec",
	"object_vacall",
	"PyImport_",
	"import_find_and_load",
	"rb_vm_",
	"vm_",
	"ruby_",
	"rb_ec_",
	"rb_protect",
	"rb_ensure",
	"rb_rescue",
	"rb_vrescue",
	"rb_yield",
	"rb_call",
	"luaV_execute",
	"luaD_",
	"lua_pcall",
	"lua_call",
	"JavaMain",
	"ThreadJavaMain",
	"JavaCalls::",
	"jni_invoke",
	"jni_Call",
	"Perl_runops",
	"perl_run",
	"zend_execute",
	"execute_ex",
	"php_execute_script",
	"erts_schedule",
	"process_main",
	"sched_thread_func",
	/* V8 and node */
	"Builtins_",
	"v8::",
	"v8impl::",
	"napi_",
	"node::Start",
	"node::SpinEventLoop",
	"node::LoadEnvironment",
	"node::InternalMakeCallback",
	"node::MakeCallback",
	"node::AsyncWrap::MakeCallback",
	"node::InternalCallbackScope",
	"node::NodeMainInstance",
	"node::CallbackScope",
	"node::ThreadPoolWork",
	"node::PlatformWorkerThread",
	"node::worker::Worker::Run",
	"node::StreamResource::",
	"node::EmitTo",
	"node::Environment::",
};
/* Libraries that programs have inside: their interface is a way, and no place. */
static const char *const libraries[] = {
	"sqlite3",   "rocksdb::", "leveldb::", "mdb_",    "OPENSSL_", "CRYPTO_",    "EVP_",
	"ASN1_",     "X509_",     "SSL_",      "BIO_",    "deflate",  "inflate",    "Brotli",
	"ZSTD_",     "XML_",      "xml",       "ares_",   "curl_",    "Curl_",      "icu_",
	"nghttp2_",  "llhttp_",   "lua_",      "luaL_",   "luaM_",    "luaH_",      "PyMem_",
	"PyObject_", "_PyMem_",   "PyList_",   "PyDict_", "PyBytes_", "PyUnicode_", "event_new",
	"evbuffer_", "g_",        "json_",     "yaml_",
};
/* Parts of a name that only stand for "give me memory". */
static const char *const helpers[] = {"alloc", "strdup", "strndup", "memdup", "_dup", "_grow",
				      "_reserve", "_resize", "_expand", "Grow",
				      /* Nim's system module */
				      "newObj", "nimNew", "genericAssign", "genericSeqAssign",
				      "newSeq", "incrSeq", "setLen", "setLengthSeq", "setLengthStr",
				      "appendString", "copyString", "rawNewString", "prepareAdd",
				      "eqcopy_", "eqdup_"};

static bool is_dispatcher(const char *name)
{
	const char *last = strstr(name, "::main");

	/* `main` is whole; `mainloop` is a function like others. */
	if (!strncmp(name, "main", 4))
		return !name[4] || name[4] == '(' || !strncmp(name, "main.main", 9);
	return (last && !last[6]) ||
	       limpet_begins_any(name, dispatchers, LIMPET_COUNT_OF(dispatchers));
}

static bool is_helper_by_name(const char *name)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(helpers); i++)
		if (strcasestr(name, helpers[i]))
			return true;
	return false;
}

/* ------------------------------------------------------------------ functions */

struct tally {
	double weight, depth; /* the latter: sum of weight times distance from the allocation */
	double again;         /* of stacks on which it is more than once, for each time more */
	uint32_t stamp, node; /* of the last stack; the one with most weight */
	double most;
};
struct search {
	struct limpet_locations *locations;
	const struct limpet_culprit_stack *stacks;
	size_t count;
	struct tally *tallies; /* by function */
	double weight;
	bool has_scripts; /* among the candidates */
};

static int add_stack(struct search *search, const struct limpet_culprit_stack *it, uint32_t stamp)
{
	struct limpet_location_stack stack;
	int code = limpet_locations_stack(search->locations, it->node, false, &stack);

	if (code < 0)
		return code;
	for (size_t i = 0; i < stack.count; i++) {
		const uint32_t function = search->locations->locations[stack.list[i]].function;
		struct tally *tally = &search->tallies[function];

		if (tally->stamp == stamp) {
			tally->again += fmax(it->weight, 0);
			continue;
		}
		tally->stamp = stamp;
		if (it->weight <= 0)
			continue;
		tally->weight += it->weight;
		tally->depth += it->weight * (double)i;
		if (it->weight > tally->most) {
			tally->most = it->weight;
			tally->node = it->node;
		}
	}
	return 0;
}

static const struct limpet_function *function_of(const struct search *search, uint32_t function)
{
	return &search->locations->functions[function];
}

static bool may_be_named(const struct search *search, uint32_t number, bool named)
{
	const struct limpet_function *function = function_of(search, number);

	return number > LIMPET_LOCATION_UNFAULTED &&
	       (function->module || function->file || !named) &&
	       function->kind == LIMPET_FRAME_PROGRAM && function->named == named &&
	       !(named && is_dispatcher(function->name));
}

struct candidate {
	uint32_t function;
	double depth;
};

static int compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->depth < y->depth ? -1 : x->depth > y->depth;
}

/* Functions with this share, the innermost first. */
static size_t list_candidates(const struct search *search, double share, bool named,
			      struct candidate *list)
{
	size_t count = 0;

	for (uint32_t i = 0; i < search->locations->function_count; i++) {
		const struct tally *tally = &search->tallies[i];

		if (tally->weight <= 0 || tally->weight < share * search->weight ||
		    !may_be_named(search, i, named))
			continue;
		list[count++] = (struct candidate){i, tally->depth / tally->weight};
	}
	qsort(list, count, sizeof(*list), compare);
	return count;
}

/* ------------------------------------------------------------------ which of them */

/* Of the system: not what somebody wrote who looks for a leak in it. */
static bool is_of_system(const struct search *search, const struct limpet_function *function)
{
	const char *module = function->module;

	return module && strcmp(module, search->locations->model->target->executable) != 0 &&
	       (limpet_begins(module, "/usr/lib") || limpet_begins(module, "/lib"));
}

/* Of a language's standard library, which is compiled into the program. */
static bool is_of_standard_library(const struct limpet_function *function)
{
	static const char *const folders[] = {"/nim/lib/",     "/lib/nim/", "/rustc/",
					      "/include/c++/", "/lib/go",   "/local/go/"};

	for (size_t i = 0; function->file && i < LIMPET_COUNT_OF(folders); i++)
		if (strstr(function->file, folders[i]))
			return true;
	return false;
}

/* Of a script, but not of those that come with the program that runs it. */
static bool is_of_script(const struct limpet_function *function)
{
	return !function->module && function->named && function->file &&
	       !limpet_begins(function->file, "node:");
}

/* Where scripts run, all else of the program that runs them serves them. */
static bool is_of_runtime(const struct search *search, const struct limpet_function *function)
{
	if (!function->module)
		return function->named && !is_of_script(function);
	return search->has_scripts &&
	       !strcmp(function->module, search->locations->model->target->executable);
}

static bool is_of_library(const struct search *search, uint32_t number)
{
	const struct limpet_function *function = function_of(search, number);

	return is_of_runtime(search, function) || is_of_standard_library(function) ||
	       is_of_system(search, function) ||
	       limpet_begins_any(function->name, libraries, LIMPET_COUNT_OF(libraries));
}

/* The function that calls this one on a stack; UINT32_MAX: it is not on it, or outermost. */
static uint32_t caller_on(const struct search *search, uint32_t node, uint32_t function)
{
	struct limpet_location_stack stack;
	uint32_t caller = UINT32_MAX;

	if (limpet_locations_stack(search->locations, node, false, &stack) < 0)
		return caller;
	for (size_t i = stack.count; i-- > 0;) {
		const uint32_t at = search->locations->locations[stack.list[i]].function;

		if (at == function)
			return caller;
		caller = at;
	}
	return UINT32_MAX;
}

static bool is_helper_by_callers(const struct search *search, uint32_t function)
{
	LIMPET_FREE bool *heavy = calloc(search->locations->function_count + 1ul, sizeof(*heavy));
	uint64_t all = 0, of_heavy = 0;

	for (size_t i = 0; heavy && i < search->count; i++) {
		const uint32_t caller =
			search->stacks[i].weight > 0
				? caller_on(search, search->stacks[i].node, function)
				: UINT32_MAX;

		if (caller != UINT32_MAX)
			heavy[caller] = true;
	}
	for (size_t i = 0; heavy && i < search->count; i++) {
		const uint32_t caller = caller_on(search, search->stacks[i].node, function);

		if (caller == UINT32_MAX)
			continue;
		all += search->stacks[i].allocations;
		of_heavy += heavy[caller] ? search->stacks[i].allocations : 0;
	}
	return (double)of_heavy < HELPER_SHARE * (double)all;
}

static bool is_helper(const struct search *search, uint32_t number)
{
	const struct tally *tally = &search->tallies[number];

	return tally->again > RECURSIVE_SHARE * tally->weight ||
	       is_helper_by_name(function_of(search, number)->name) ||
	       is_helper_by_callers(search, number);
}

/* The first that is neither a helper nor of a library; *ret_via: the last before it that is of a
 * library, or the first helper. If there is none, a library's interface. */
static size_t choose(const struct search *search, const struct candidate *list, size_t count,
		     size_t *ret_via)
{
	size_t at = 0, interface = SIZE_MAX;

	while (at < count && (is_of_library(search, list[at].function) ||
			      (is_helper(search, list[at].function) && at + 1 < count))) {
		if (is_of_library(search, list[at].function))
			interface = at;
		at++;
	}
	*ret_via = interface != SIZE_MAX ? interface : at ? 0 : SIZE_MAX;
	if (at < count)
		return at;
	*ret_via = SIZE_MAX;
	return interface != SIZE_MAX ? interface : 0;
}

static char *name_of(const struct search *search, uint32_t function)
{
	return limpet_function_name(function_of(search, function), false);
}

/* Where the function is on its largest stack. */
static int place_of(const struct search *search, uint32_t function, struct limpet_culprit *culprit)
{
	struct limpet_location_stack stack;
	int code = limpet_locations_stack(search->locations, culprit->node, false, &stack);

	for (size_t i = 0; code == 0 && i < stack.count; i++) {
		const struct limpet_location *place = &search->locations->locations[stack.list[i]];

		if (place->function != function)
			continue;
		culprit->file = place->file ? limpet_base_name(place->file) : NULL;
		culprit->line = place->line;
		break;
	}
	return code;
}

/* The interpreter or dispatcher that the function enters, where nothing else is to be named;
 * UINT32_MAX: none. */
static uint32_t entered_by(const struct search *search, uint32_t number)
{
	const struct tally *tally = &search->tallies[number];
	const double depth = tally->depth / tally->weight;
	uint32_t found = UINT32_MAX;
	double most = -1;

	for (uint32_t i = LIMPET_LOCATION_UNFAULTED + 1; i < search->locations->function_count;
	     i++) {
		const struct tally *one = &search->tallies[i];
		const struct limpet_function *function = function_of(search, i);

		if (one->weight < shares[0] * tally->weight || !function->named ||
		    !is_dispatcher(function->name) || one->depth / one->weight >= depth ||
		    one->depth / one->weight <= most)
			continue;
		most = one->depth / one->weight;
		found = i;
	}
	return found;
}

static bool has_scripts(const struct search *search, const struct candidate *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_of_script(function_of(search, list[i].function)))
			return true;
	return false;
}

static int describe(struct search *search, const struct candidate *list, size_t count,
		    struct limpet_culprit *ret)
{
	size_t via, at;
	const struct tally *tally;
	struct limpet_culprit culprit;
	uint32_t through;
	int code;

	search->has_scripts = has_scripts(search, list, count);
	at = choose(search, list, count, &via);
	tally = &search->tallies[list[at].function];
	culprit = (struct limpet_culprit){.node = tally->node,
					  .number = list[at].function,
					  .share = tally->weight / search->weight};
	through = via != SIZE_MAX ? list[via].function : entered_by(search, list[at].function);
	culprit.function = name_of(search, list[at].function);
	if (through != UINT32_MAX)
		culprit.via = name_of(search, through);
	if (at + 1 < count)
		culprit.caller = name_of(search, list[at + 1].function);
	code = !culprit.function || (through != UINT32_MAX && !culprit.via) ||
			       (at + 1 < count && !culprit.caller)
		       ? -ENOMEM
		       : place_of(search, list[at].function, &culprit);
	if (code < 0)
		limpet_culprit_done(&culprit);
	else
		*ret = culprit;
	return code;
}

static int find(struct search *search, struct limpet_culprit *ret)
{
	LIMPET_FREE struct candidate *list =
		calloc(search->locations->function_count + 1ul, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (unsigned named = 2; named-- > 0;)
		for (size_t i = 0; i < LIMPET_COUNT_OF(shares); i++) {
			const size_t count = list_candidates(search, shares[i], named, list);

			if (count)
				return describe(search, list, count, ret);
		}
	return 0;
}

int limpet_culprit_find(struct limpet_locations *locations,
			const struct limpet_culprit_stack *stacks, size_t count,
			struct limpet_culprit *ret_culprit)
{
	struct search search = {.locations = locations, .stacks = stacks, .count = count};
	int code = 0;

	*ret_culprit = (struct limpet_culprit){0};
	for (size_t i = 0; i < count; i++)
		if (stacks[i].weight > 0)
			search.weight += stacks[i].weight;
	if (search.weight <= 0)
		return 0;
	search.tallies = calloc(locations->function_count + 1ul, sizeof(*search.tallies));
	if (!search.tallies)
		return -ENOMEM;
	for (size_t i = 0; i < count && code == 0; i++)
		code = add_stack(&search, &stacks[i], (uint32_t)i + 1);
	if (code == 0)
		code = find(&search, ret_culprit);
	free(search.tallies);
	return code;
}

int limpet_culprit_mark(struct limpet_locations *locations, const struct limpet_culprit *culprit,
			const struct limpet_culprit_stack *stacks, size_t count, bool *marks)
{
	struct limpet_location_stack stack;
	int code = 0;

	for (size_t i = 0; culprit->node && i < count && code == 0; i++) {
		code = limpet_locations_stack(locations, stacks[i].node, false, &stack);
		for (size_t k = 0; code == 0 && k < stack.count; k++)
			marks[i] |= locations->locations[stack.list[k]].function == culprit->number;
	}
	return code;
}

/* People leave that out. */
static void strip_anonymous(char *text)
{
	static const char anonymous[] = "(anonymous namespace)::";
	const size_t length = sizeof(anonymous) - 1;

	for (char *at = text; (at = strstr(at, anonymous));)
		memmove(at, at + length, strlen(at + length) + 1);
}

char *limpet_culprit_words(const struct limpet_culprit *culprit, bool with_via)
{
	const char *via = with_via ? culprit->via : NULL;
	char place[128] = "";
	char *text;

	if (!culprit->node)
		return strdup("functions without a name");
	if (culprit->file && culprit->line)
		snprintf(place, sizeof(place), " (%s:%u)", culprit->file, culprit->line);
	else if (culprit->caller)
		snprintf(place, sizeof(place), " (called by %s)", culprit->caller);
	if (asprintf(&text, "%s%s%s%s", culprit->function, place, via ? ", through " : "",
		     via ?: "") < 0)
		return NULL;
	strip_anonymous(text);
	return text;
}

void limpet_culprit_done(struct limpet_culprit *culprit)
{
	free(culprit->function);
	free(culprit->via);
	free(culprit->caller);
	*culprit = (struct limpet_culprit){0};
}
