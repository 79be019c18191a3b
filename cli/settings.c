#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

#include "cli/ui.h"

static int take_addresses(const char *value, struct limpet_capture_config *config)
{
	config->addresses = strcmp(value, "0") != 0;
	return LIMPET_EXIT_OK;
}

static int take_load(const char *value, struct limpet_capture_config *config)
{
	if (!strcmp(value, "dlopen"))
		config->load = LIMPET_METHOD_DLOPEN;
	else if (!strcmp(value, "map"))
		config->load = LIMPET_METHOD_OUTSIDE;
	else
		return limpet_ui_usage(NULL, "cannot load the agent by '%s': dlopen or map", value);
	return LIMPET_EXIT_OK;
}

const struct limpet_setting limpet_settings[] = {
	{"LIMPET_ADDRESSES", "1: keep the address of every block", take_addresses},
	{"LIMPET_LOAD", "dlopen or map: how to load the agent", take_load},
	{0},
};

int limpet_settings_set(const char *name, const char *value, struct limpet_capture_config *config)
{
	const struct limpet_setting *setting = limpet_settings;

	while (strcmp(setting->name, name) != 0)
		setting++;
	return setting->take(value, config);
}

int limpet_settings_take(struct limpet_capture_config *config)
{
	int status = LIMPET_EXIT_OK;

	for (const struct limpet_setting *setting = limpet_settings;
	     setting->name && status == LIMPET_EXIT_OK; setting++) {
		const char *value = getenv(setting->name);

		if (value && *value)
			status = setting->take(value, config);
	}
	return status;
}
