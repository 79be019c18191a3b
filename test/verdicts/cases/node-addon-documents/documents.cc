// An addon that parses documents. Its externals have no finalizer, so the native document outlives
// the JavaScript one.
#include <node_api.h>
#include <string>
#include <vector>

namespace
{

struct Document {
	std::vector<std::string> lines;
};

std::size_t documents;

Document *ParseDocument(const std::string &text)
{
	auto *document = new Document;
	std::size_t from = 0, to;

	while ((to = text.find('\n', from)) != std::string::npos) {
		document->lines.push_back(text.substr(from, to - from));
		from = to + 1;
	}
	documents++;
	return document;
}

napi_value Parse(napi_env env, napi_callback_info info)
{
	napi_value argument, external;
	std::size_t count = 1, size;

	napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
	napi_get_value_string_utf8(env, argument, nullptr, 0, &size);
	std::string text(size, '\0');
	napi_get_value_string_utf8(env, argument, &text[0], size + 1, &size);
	napi_create_external(env, ParseDocument(text), nullptr, nullptr, &external);
	return external;
}

napi_value CountLines(napi_env env, napi_callback_info info)
{
	napi_value argument, result;
	std::size_t count = 1;
	void *document;

	napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
	napi_get_value_external(env, argument, &document);
	napi_create_int64(env, static_cast<Document *>(document)->lines.size(), &result);
	return result;
}

napi_value Documents(napi_env env, napi_callback_info)
{
	napi_value result;

	napi_create_int64(env, documents, &result);
	return result;
}

} // namespace

NAPI_MODULE_INIT()
{
	napi_value function;

	napi_create_function(env, "parse", NAPI_AUTO_LENGTH, Parse, nullptr, &function);
	napi_set_named_property(env, exports, "parse", function);
	napi_create_function(env, "countLines", NAPI_AUTO_LENGTH, CountLines, nullptr, &function);
	napi_set_named_property(env, exports, "countLines", function);
	napi_create_function(env, "documents", NAPI_AUTO_LENGTH, Documents, nullptr, &function);
	napi_set_named_property(env, exports, "documents", function);
	return exports;
}
