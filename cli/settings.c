#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

#include "cli/ui.h"
#include "common/err.h"

static int parse_addresses(const char *value, struct limpet_capture_config *config)
{
	config->addresses = strcmp(value, "0") != 0;
	return LIMPET_EXIT_OK;
}

const char *const limpet_load_words[] = {
	[LIMPET_METHOD_DLOPEN] = "dlopen",
	[LIMPET_METHOD_OUTSIDE] = "map",
};

int limpet_settings_parse_load(const char *value, struct limpet_capture_config *config)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(limpet_load_words); i++)
		if (limpet_load_words[i] && !strcmp(limpet_load_words[i], value)) {
			config->load = (enum limpet_method)i;
			return LIMPET_EXIT_OK;
		}
	return limpet_ui_usage(NULL, "cannot load the agent by '%s': dlopen or map", value);
}

const struct limpet_setting limpet_settings[] = {
	{"LIMPET_ADDRESSES", "1: keep the address of every block", parse_addresses},
	{"LIMPET_LOAD", "dlopen or map: how to load the agent", limpet_settings_parse_load},
	{0},
};

int limpet_settings_take(struct limpet_capture_config *config)
{
	int status = LIMPET_EXIT_OK;

	for (const struct limpet_setting *setting = limpet_settings;
	     setting->name && status == LIMPET_EXIT_OK; setting++) {
		const char *value = getenv(setting->name);

		if (value && *value)
			status = setting->parse(value, config);
	}
	return status;
}
