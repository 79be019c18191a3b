/* One small block holds a large graph, which is reachable through it alone. */
#include "planted.h"

struct page {
	struct page *left, *right;
	char text[1000];
};

struct cursor {
	struct page *page;
};

struct cursor *open_cursor;

PLANTED_FRAME static struct page *make_pages(int depth)
{
	struct page *page = block(sizeof(*page));

	if (depth > 1) {
		page->left = make_pages(depth - 1);
		page->right = make_pages(depth - 1);
	}
	return page;
}

void plant(void)
{
	open_cursor = block(sizeof(*open_cursor));
	open_cursor->page = make_pages(10);
}
