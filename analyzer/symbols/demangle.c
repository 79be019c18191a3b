#include "analyzer/symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static size_t digits(const char *s)
{
	return strspn(s, "0123456789");
}

/* Length of a clone mark at `s` (a '.'), 0 if it is none. GCC: .cold .part.N .isra.N .constprop.N
 * .lto_priv.N; LLVM: .llvm.N; .resolver and the like are not clones. */
static size_t clone_mark(const char *s)
{
	static const char *const marks[] = {".cold", ".part",     ".isra",  ".constprop",
					    ".llvm", ".lto_priv", ".clone", ".localalias"};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		size_t n = strlen(marks[i]);

		if (!starts_with(s, marks[i]))
			continue;
		if (s[n] == '.' && digits(s + n + 1))
			n += 1 + digits(s + n + 1);
		if (s[n] == '\0' || s[n] == '.')
			return n;
	}
	return 0;
}

static void cut_clone_marks(char *s)
{
	for (char *dot = strchr(s, '.'); dot; dot = strchr(dot + 1, '.')) {
		size_t n, total = 0;

		if (dot == s)
			continue;
		while ((n = clone_mark(dot + total)))
			total += n;
		if (total && dot[total] == '\0') {
			*dot = '\0';
			return;
		}
	}
}

/* Rust's legacy scheme ends each name with `::h` and 16 hexadecimal digits. libiberty drops them
 * itself if it recognizes the scheme; names from DWARF or from other demanglers keep them. */
static void cut_rust_hash(char *s)
{
	size_t length = strlen(s);

	if (length < 19 || strncmp(s + length - 19, "::h", 3))
		return;
	if (strspn(s + length - 16, "0123456789abcdef") == 16)
		s[length - 19] = '\0';
}

/* ------------------------------------------------------------------ Nim
 *
 * Nim's C backend writes `name__module_uNUMBER` (2.x; `_NUMBER` in 1.6) or `name__HASH_NUMBER`
 * (1.x). In the module's path `Z` is a slash, `O` a dot, and a byte outside [a-z0-9] its decimal
 * code. Operators are spelled out with an underscore after the last of them.
 * Source: Nim's compiler/ccgutils.nim (mangle) and compiler/modulepaths.nim (uniqueModuleName). */

static const struct {
	const char *word;
	char character;
} nim_operators[] = {
	{"dollar", '$'}, {"percent", '%'}, {"amp", '&'},        {"roof", '^'},  {"emark", '!'},
	{"qmark", '?'},  {"star", '*'},    {"plus", '+'},       {"minus", '-'}, {"slash", '/'},
	{"eq", '='},     {"lt", '<'},      {"backslash", '\\'}, {"gt", '>'},    {"tilde", '~'},
	{"colon", ':'},  {"dot", '.'},     {"at", '@'},         {"bar", '|'},
};

/* Decodes the operators at the start of a name that ends in '_': `eqdestroy_` is `=destroy`. */
static void nim_name(const char *in, size_t length, char *out)
{
	size_t i = 0;

	if (length > 1 && in[length - 1] == '_') {
		length--;
		for (bool found = true; found && i < length;) {
			found = false;
			for (size_t k = 0; k < sizeof(nim_operators) / sizeof(nim_operators[0]);
			     k++) {
				size_t n = strlen(nim_operators[k].word);

				if (n > length - i || strncmp(in + i, nim_operators[k].word, n))
					continue;
				*out++ = nim_operators[k].character;
				i += n;
				found = true;
				break;
			}
		}
	}
	memcpy(out, in + i, length - i);
	out[length - i] = '\0';
}

/* `OOZbeacon95chainZspec` -> `beacon_chain/spec`. Only '_' and '-' are decoded from their codes:
 * other digits are more often part of the name (sha256). Leading `../` are dropped. */
static void nim_module(const char *in, size_t length, char *out)
{
	while (length >= 3 && starts_with(in, "OOZ")) {
		in += 3;
		length -= 3;
	}
	for (size_t i = 0; i < length; i++) {
		if (in[i] == 'Z') {
			*out++ = '/';
		} else if (in[i] == 'O') {
			*out++ = '.';
		} else if (i + 1 < length &&
			   (!strncmp(in + i, "95", 2) || !strncmp(in + i, "45", 2))) {
			*out++ = in[i] == '9' ? '_' : '-';
			i++;
		} else {
			*out++ = in[i];
		}
	}
	*out = '\0';
}

/* A hash of Nim 1.x: at least 20 of [A-Za-z0-9] with all three kinds among them. */
static bool nim_is_hash(const char *s, size_t length)
{
	bool upper = false, lower = false, digit = false;

	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)s[i]))
			return false;
		upper |= isupper((unsigned char)s[i]) != 0;
		lower |= islower((unsigned char)s[i]) != 0;
		digit |= isdigit((unsigned char)s[i]) != 0;
	}
	return length >= 20 && upper && lower && digit;
}

static bool nim_is_module(const char *s, size_t length)
{
	if (!length || !(islower((unsigned char)s[0]) || s[0] == 'O'))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && s[i] != 'Z' &&
		    s[i] != 'O')
			return false;
	}
	return true;
}

static char *nim_demangle(const char *symbol)
{
	const char *separator = NULL;
	const char *tail, *number;
	size_t length, name;
	char *out, *module;

	/* The last "__" is the separator; the first underscore of "___" belongs to the name. */
	for (const char *s = strstr(symbol, "__"); s; s = strstr(s + 1, "__"))
		separator = s;
	if (!separator || separator == symbol || !isalpha((unsigned char)symbol[0]))
		return NULL;
	name = (size_t)(separator - symbol);
	tail = separator + 2;
	length = strcspn(tail, "_");

	if (nim_is_hash(tail, length)) {
		const char *rest = tail + length;

		if (*rest == '_')
			rest++;
		if (rest[digits(rest)] == '\0') {
			out = malloc(strlen(symbol) + 1);
			if (out)
				nim_name(symbol, name, out);
			return out;
		}
	}
	/* Without the `u` it may be a C name, which usually has more underscores. */
	number = tail + length + (tail[length] == '_');
	if (*number == 'u')
		number++;
	else if (strcspn(symbol, "_") + 1 < name)
		return NULL;
	if (!nim_is_module(tail, length) || tail[length] != '_' || !digits(number) ||
	    number[digits(number)] != '\0')
		return NULL;
	module = malloc(2 * strlen(symbol) + 2);
	if (!module)
		return NULL;
	nim_module(tail, length, module);
	out = module + strlen(module);
	*out++ = '.';
	nim_name(symbol, name, out);
	return module;
}

/* ------------------------------------------------------------------ all */

static char *decode(const char *symbol)
{
	char *out = NULL;

	if (starts_with(symbol, "_D") && isdigit((unsigned char)symbol[2]))
		out = dlang_demangle(symbol, DMGL_NO_OPTS);
	else if (starts_with(symbol, "_Z") || starts_with(symbol, "_R") ||
		 starts_with(symbol, "__Z") || starts_with(symbol, "_GLOBAL_"))
		out = cplus_demangle(symbol, DMGL_AUTO | DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP);
	else
		out = nim_demangle(symbol);
	return out;
}

char *limpet_demangle(const char *symbol)
{
	char *name = strndup(symbol, LIMPET_DEMANGLE_MAX_BYTES);
	char *out;

	if (!name)
		return NULL;
	/* A version suffix (`memcpy@@GLIBC_2.14`) is not part of the name. */
	if (name[0] && strchr(name + 1, '@'))
		*strchr(name + 1, '@') = '\0';
	cut_clone_marks(name);
	out = decode(name);
	if (!out)
		out = name;
	else
		free(name);
	if (strlen(out) > LIMPET_DEMANGLE_MAX_BYTES)
		out[LIMPET_DEMANGLE_MAX_BYTES] = '\0';
	cut_rust_hash(out);
	return out;
}

/* A longer one before its beginning. */
static const char *const OPERATORS[] = {
	"()", "[]", "<=>", "->*", "<<=", ">>=", "->", "<<", ">>", "&&", "||", "++", "--",
	"<=", ">=", "==",  "!=",  "+=",  "-=",  "*=", "/=", "%=", "^=", "&=", "|=", "<",
	">",  "=",  "!",   "+",   "-",   "*",   "/",  "%",  "^",  "&",  "|",  "~",  ",",
};

/* The characters of an operator (`operator<`, `operator()`, `operator->`) are no brackets: returns
 * how many bytes to copy unchanged, 0 if `s` is no operator. */
static size_t operator_name(const char *s, bool at_word)
{
	size_t n = strlen("operator");

	if (!at_word || strncmp(s, "operator", n) != 0 || isalnum((unsigned char)s[n]) ||
	    s[n] == '_')
		return 0;
	for (size_t i = 0; i < LIMPET_COUNT_OF(OPERATORS); i++) {
		if (starts_with(s + n, OPERATORS[i]))
			return n + strlen(OPERATORS[i]);
	}
	return n;
}

/* How GCC begins the name of a lambda in DWARF. */
#define LAMBDA "<lambda"

char *limpet_demangle_shorten(const char *name)
{
	size_t length = strlen(name);
	char *out = malloc(4 * length + 4);
	size_t used = 0, depth = 0;

	if (!out)
		return NULL;
	for (size_t i = 0; i < length; i++) {
		bool at_word = !i || !(isalnum((unsigned char)name[i - 1]) || name[i - 1] == '_');
		size_t n = depth ? 0 : operator_name(name + i, at_word);

		if (n) {
			memcpy(out + used, name + i, n);
			used += n;
			i += n - 1;
			depth = name[i + 1] == '('; /* its parameters */
			if (starts_with(name + i + 1, " <")) {
				memcpy(out + used, " <...>", 6);
				used += 6;
				depth = 1;
				i++;
			}
			i += depth;
		} else if (depth) {
			/* "->" inside a type is the arrow of Rust's fn types, no bracket. */
			if (name[i] == '<' || name[i] == '(')
				depth++;
			else if (name[i] == ')' || (name[i] == '>' && name[i - 1] != '-'))
				depth--;
		} else if (starts_with(name + i, LAMBDA)) {
			/* GCC's `<lambda(int)>` in names from DWARF: no template. */
			memcpy(out + used, LAMBDA ">", strlen(LAMBDA ">"));
			used += strlen(LAMBDA ">");
			depth = 1;
		} else if (name[i] == '<' && used && out[used - 1] != ' ' && out[used - 1] != '(') {
			memcpy(out + used, "<...>", 5);
			used += 5;
			depth = 1;
		} else if (name[i] == '(' && used &&
			   (isalnum((unsigned char)out[used - 1]) ||
			    strchr("_>})]", out[used - 1]))) {
			/* A parameter list, not `(anonymous namespace)` or one of Rust's tuples. */
			depth = 1;
		} else {
			out[used++] = name[i];
		}
	}
	/* The qualifier behind the parameters. */
	out[used] = '\0';
	if (used > 6 && !strcmp(out + used - 6, " const"))
		out[used - 6] = '\0';
	return out;
}
