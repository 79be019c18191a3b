/* A small template engine. Its caller owns what render_template() returns, and has release_page()
 * to free it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *expand(const char *template, const char *name)
{
	size_t size = strlen(template) + strlen(name) * 8 + 1;
	char *text = malloc(size), *to = text;

	for (; *template; template ++)
		if (*template == '@')
			to += sprintf(to, "%s", name);
		else
			*to++ = *template;
	*to = 0;
	return text;
}

char *render_template(const char *template, const char *name)
{
	char *body = expand(template, name);
	char *page = malloc(strlen(body) + 100);

	sprintf(page, "<html><body>%s</body></html>", body);
	free(body);
	return page;
}

void release_page(char *page)
{
	free(page);
}
