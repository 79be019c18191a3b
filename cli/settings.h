/* What tests set, by environment variables, and users need not know; --debug lists it. */
#ifndef LIMPET_CLI_SETTINGS_H
#define LIMPET_CLI_SETTINGS_H

#include "injector/preflight/capture_config.h"

struct limpet_setting {
	const char *name, *what;
	/* Returns LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message. */
	int (*parse)(const char *value, struct limpet_capture_config *config);
};

/* Ends with a name of NULL. */
extern const struct limpet_setting limpet_settings[];

/* By enum limpet_method; NULL: cannot be asked for. */
extern const char *const limpet_load_words[];
/* The value of LIMPET_LOAD. Returns as `parse`. */
int limpet_settings_parse_load(const char *value, struct limpet_capture_config *config);
/* Those that are set, and not empty, into *config. LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a
 * message. */
int limpet_settings_take(struct limpet_capture_config *config);

#endif
