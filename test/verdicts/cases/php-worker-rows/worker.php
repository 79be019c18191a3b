<?php
// A worker that imports rows, and keeps each of them for a log that nobody reads.

final class Importer
{
    /** @var array<int, array<string, string>> */
    private array $log = [];

    public function import(int $number): void
    {
        $row = ['id' => "row $number", 'title' => str_repeat("title $number ", 20), 'body' => str_repeat('b', 700 + $number % 100)];
        $this->log[] = $row;
    }

    public function rows(): int
    {
        return count($this->log);
    }
}

$importer = new Importer();
$start = hrtime(true);
$number = 0;
while (!file_exists("$argv[1]/end")) {
    for ($i = 0; $i < 20; $i++) {
        $importer->import($number++);
    }
    if ($number == 4000) {
        echo "ready\n";
    }
    $wait = $start + $number * 500000 - hrtime(true);
    if ($wait > 0) {
        usleep(intdiv($wait, 1000));
    }
}
fprintf(STDERR, "%d rows kept; %d bytes in use, %d of chunks\n", $importer->rows(), memory_get_usage(), memory_get_usage(true));
