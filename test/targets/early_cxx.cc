// A C++ module with objects that are made before anybody can look at it: see comer.c.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" __attribute__((noinline, visibility("default"))) void early_more(unsigned long count);

namespace
{

struct Table {
	std::vector<std::unique_ptr<std::string>> rows;

	__attribute__((noinline)) Table();
};

__attribute__((noinline)) std::unique_ptr<std::string> early_row(unsigned number)
{
	if (number % 10 == 9)
		throw std::runtime_error("every tenth");
	return std::make_unique<std::string>(500, 'x');
}

// 90 objects, and as many texts of theirs.
Table::Table()
{
	rows.reserve(100);
	for (unsigned i = 0; i < 100; i++) {
		try {
			rows.push_back(early_row(i));
		} catch (const std::runtime_error &) {
		}
	}
}

Table table;

} // namespace

void early_more(unsigned long count)
{
	while (count--)
		table.rows.push_back(std::make_unique<std::string>(500, 'y'));
}
