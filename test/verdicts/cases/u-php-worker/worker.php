<?php
// A queue worker that logs each job to an array, as debug tools do.
class QueryLog
{
	private array $queries = [];

	public function record(string $sql, float $time): void
	{
		$this->queries[] = ['sql' => $sql, 'time' => $time, 'trace' => explode(',', str_repeat('frame,', 20))];
	}

	public function count(): int
	{
		return count($this->queries);
	}
}

$log = new QueryLog();
$number = 0;
$next = microtime(true);
for ($i = 0; $i < 1000; $i++)
	$log->record("SELECT * FROM jobs WHERE id = $i", 0.1);
echo "ready\n";
while (true) {
	for ($i = 0; $i < 10; $i++) {
		$number++;
		$log->record("UPDATE jobs SET state = 'done', payload = '" . str_repeat('x', 1000) . "' WHERE id = $number", 0.2);
		$temporary = array_map('strrev', range(1, 50));
	}
	if ($number % 1000 == 0)
		fwrite(STDERR, $log->count() . " queries, " . memory_get_usage() . " used, " . memory_get_usage(true) . " taken\n");
	$next += 0.02;
	usleep((int) max(0, ($next - microtime(true)) * 1000000));
}
