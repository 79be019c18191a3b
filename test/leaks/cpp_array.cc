// Arrays of objects with destructors: new[] keeps the count before what it returns, so the pointers
// are interior.
#include "planted.h"

namespace
{
struct Row {
	char text[32];
	~Row()
	{
		__asm__ volatile("" : : "r"(text) : "memory");
	}
};

PLANTED_FRAME Row *make_rows()
{
	return new Row[10]();
}
} // namespace

Row *kept_rows[5];

void plant()
{
	for (auto &rows : kept_rows)
		rows = make_rows();
}
