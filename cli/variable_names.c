#include "cli/variable_names.h"

#include "common/open_file.h"
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
