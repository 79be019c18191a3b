#include "cli/variable_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/ui.h"
#include "common/base_name.h"
#include "common/open_file.h"
#include "explain/reach/holders.h"
#include "injector/proc/target_process.h"

void limpet_variable_names_done(struct limpet_variable_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		limpet_symbolizer_close(names->list[i].symbolizer);
	names->count = 0;
}

/* The file as it is mapped; its separate debug information by the paths that the process has. */
static struct limpet_symbolizer *open_module(const struct limpet_target *target,
					     const struct limpet_module *module)
{
	LIMPET_CLOSE int fd = module->vdso ? -1 : limpet_module_open(target, module);
	struct limpet_symbolizer_options options = {.path = module->path, .fd = fd};
	struct limpet_symbolizer *symbolizer;
	char root[LIMPET_TARGET_ROOT_BYTES];

	if (fd < 0)
		return NULL;
	if (limpet_target_root(target, root))
		options.root = root;
	return limpet_symbolizer_open(&options, &symbolizer, NULL) < 0 ? NULL : symbolizer;
}

static struct limpet_symbolizer *symbolizer_of(struct limpet_variable_names *names,
					       const struct limpet_module *module)
{
	for (size_t i = 0; i < names->count; i++)
		if (names->list[i].module == module)
			return names->list[i].symbolizer;
	if (names->count == LIMPET_VARIABLE_MODULES)
		return NULL;
	names->list[names->count].module = module;
	names->list[names->count].symbolizer = open_module(names->target, module);
	return names->list[names->count++].symbolizer;
}

bool limpet_variable_names_find(struct limpet_variable_names *names,
				const struct limpet_module *module, uint64_t address,
				struct limpet_symbol_variable *ret_variable)
{
	struct limpet_symbolizer *symbolizer = symbolizer_of(names, module);

	if (!symbolizer ||
	    !limpet_symbolizer_variable(symbolizer, address - module->bias, ret_variable))
		return false;
	ret_variable->start += module->bias;
	return true;
}

char *limpet_variable_words(const struct limpet_symbol_variable *variable)
{
	char *words;
	const int bytes = variable->file && variable->line
				  ? asprintf(&words, "%s (%s:%" PRIu32 ")", variable->name,
					     limpet_base_name(variable->file), variable->line)
				  : asprintf(&words, "%s", variable->name);

	return bytes < 0 ? NULL : limpet_ui_clean(words);
}

bool limpet_variable_name(const struct limpet_target *target, const struct limpet_module *module,
			  uint64_t address, struct limpet_leak_variable *ret)
{
	static struct limpet_variable_names names;
	LIMPET_FREE char *words = NULL;
	struct limpet_symbol_variable variable;

	names.target = target;
	if (!limpet_variable_names_find(&names, module, address, &variable))
		return false;
	words = limpet_variable_words(&variable);
	if (!words)
		return false;
	snprintf(ret->name, sizeof(ret->name), "%s", words);
	ret->start = variable.start;
	ret->end = variable.start + variable.bytes;
	return true;
}
