#include <node_api.h>
#include <stdlib.h>
#include <string.h>

/* tokenize(text) -> number of tokens; the tokens hang on a list that only tokens_free() would drop.
 */
struct tokens {
	char **items;
	size_t count, room;
};

static void tokens_add(struct tokens *tokens, const char *text, size_t size)
{
	if (tokens->count == tokens->room) {
		tokens->room = tokens->room ? tokens->room * 2 : 8;
		tokens->items = realloc(tokens->items, tokens->room * sizeof(char *));
	}
	tokens->items[tokens->count++] = strndup(text, size);
}

static void tokens_free(struct tokens *tokens)
{
	for (size_t i = 0; i < tokens->count; i++)
		free(tokens->items[i]);
	free(tokens->items);
	free(tokens);
}

static struct tokens *tokens_split(const char *text)
{
	struct tokens *tokens = calloc(1, sizeof(*tokens));

	while (*text != '\0') {
		size_t size = strcspn(text, " ");

		tokens_add(tokens, text, size);
		text += size + (text[size] == ' ');
	}
	return tokens;
}

static napi_value tokenize(napi_env env, napi_callback_info info)
{
	size_t count = 1, size;
	napi_value argument, result;
	struct tokens *tokens;
	char *text;

	napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
	napi_get_value_string_utf8(env, argument, NULL, 0, &size);
	text = malloc(size + 1);
	napi_get_value_string_utf8(env, argument, text, size + 1, &size);
	tokens = tokens_split(text);
	free(text);
	napi_create_uint32(env, (unsigned)tokens->count, &result);
	if (tokens->count < 2)
		tokens_free(tokens);
	return result;
}

NAPI_MODULE_INIT()
{
	napi_value function;

	napi_create_function(env, "tokenize", NAPI_AUTO_LENGTH, tokenize, NULL, &function);
	napi_set_named_property(env, exports, "tokenize", function);
	return exports;
}
