#!/usr/bin/env bats
# limpet explain: what it says of a program that knows what it has, and of what malloc_trim(3) then gives back.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# At a heap that changes all the while.
: "${LOOKS:=2}"

# Of the target, into $work/explain.json.
explain() {
	within 60 "$LIMPET" explain "$pid" --json >"$work/explain.json" 2>"$work/explain.err" ||
		fail "limpet explain: $(<"$work/explain.err")"
}

# says FILTER [OPTION...]: jq's answer about it is true.
says() { says_in "$work/explain.json" "$@"; }

# info NAME: mallinfo2 of the target, as JSON in `answer`.
info() {
	tell "$1" info info || return 1
	answer=${answer#info }
}

# At most so many percent are of no known owner, 5 by default. That the table adds up to RSS says only that nothing was
# counted twice or left out, and not that the rows are right: their amounts are held against what the target has itself.
adds_up() {
	says '([.accounts[].bytes] | add) / .rss_bytes | . >= 0.98 and . <= 1.02' || return 1
	says '.rss_bytes / $rss | . >= 0.98 and . <= 1.02' --argjson rss "$(rss_of "$pid")" || return 1
	says '.unknown_bytes <= .rss_bytes * $most / 100' --argjson most "${1:-5}"
}

# What mallinfo2 says in the target itself, to the byte; and the rows have what its arenas have in use, which it has written to.
agrees_with_malloc() {
	info "$1" || return 1
	says '.glibc | .unread_arenas == 0 and .system_bytes == $info.arena and
		.free_bytes == $info.fordblks and .top_bytes == $info.keepcost and .mmapped_bytes == $info.hblkhd' --argjson info "$answer" || return 1
	says '[.accounts[] | select(.kind | startswith("glibc-")).bytes] | add >= 0.95 * $info.uordblks' \
		--argjson info "$answer"
}

# trims NAME: malloc_trim lowers RSS by what was said.
trims() {
	local before after said
	before=$(rss_of "$pid")
	said=$(jq '.glibc.returned_by_trim_bytes' <"$work/explain.json")
	tell "$1" trim trimmed || return 1
	after=$(rss_of "$pid")
	echo "said $said, measured $((before - after))"
	((100 * (before - after) >= 85 * said && 100 * (before - after) <= 115 * said))
}

# memory KEY: what the kernel counts, in KiB.
memory() {
	local key kib
	while read -r key kib _; do
		[[ $key != "$1:" ]] || echo "$kib"
	done < <(cat "/proc/$pid/smaps_rollup" "/proc/$pid/status")
}

# The same to 64 KiB: the end of the heap, and no more.
trims_little() {
	local before after said
	before=$(rss_of "$pid")
	said=$(jq '.glibc.returned_by_trim_bytes' <"$work/explain.json")
	tell "$1" trim trimmed || return 1
	after=$(rss_of "$pid")
	echo "said $said, measured $((before - after))"
	((before - after <= said + 65536 && before - after >= said - 65536))
}

account() {
	printf '[.accounts[] | select(.kind == "%s") | .bytes] | add' "$1"
}

@test "a main heap full of holes" {
	start explained "$TARGETS/explained"
	tell explained "fragment 300000" taken
	explain
	adds_up
	agrees_with_malloc explained
	says '.format == "limpet-explain" and .version == 1 and .command == "explained"'
	says '.accounts[0] | .kind == "glibc-main-heap" and .retained_bytes > .bytes * 0.8 and .remedy == "malloc_trim(0)"'
	says '.verdicts[0] | .id == "glibc-free" and .remedy == "malloc_trim(0)"'
	says '.verdicts[0].returned_bytes == .glibc.returned_by_trim_bytes and .glibc.returned_by_trim_bytes > 40000000'
	says 'any(.verdicts[]; .id == "glibc-fragmented" and .returned_bytes == null)'
	trims explained
	explain
	adds_up
	agrees_with_malloc explained
	says '.glibc.returned_by_trim_bytes < 200000'
	run --separate-stderr "$LIMPET" explain "$pid"
	[[ $status == 0 && ${lines[0]} == "'explained' ($pid): "*" resident: "* && $output == *$'\n  - '* ]]
	[[ -z $stderr ]]
	((${#lines[@]} < 40))
	[[ ! $output =~ [^$'\n']{81} ]]
	finish explained
}

# bats test_tags=release
@test "small blocks, which wait in fastbins" {
	start explained "$TARGETS/explained"
	tell explained "small 300000" taken
	explain
	adds_up
	agrees_with_malloc explained
	says '.glibc.fastbin_bytes > 10000000'
	trims explained
	explain
	says '.glibc.fastbin_bytes == 0'
	agrees_with_malloc explained
	finish explained
}

# bats test_tags=release
@test "a heap of huge pages, of which the top shrinks by whole ones" {
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 start explained "$TARGETS/explained"
	tell explained "fragment 300000" taken
	explain
	adds_up
	agrees_with_malloc explained
	trims explained
	explain
	agrees_with_malloc explained
	says '.glibc.returned_by_trim_bytes < 200000'
	finish explained
}

@test "a main heap in pieces: brk fails, or others call it" {
	local how
	for how in wall "foreign 100" "foreign 33" "foreign 20001"; do
		start "explained.$how" "$TARGETS/explained"
		tell "explained.$how" "fragment 20000" taken
		tell "explained.$how" "$how" taken
		tell "explained.$how" "fragment 100000" taken
		explain
		adds_up
		agrees_with_malloc "explained.$how"
		trims "explained.$how"
		finish "explained.$how"
	done
}

# The row and what was read of the chunks, which may begin and end within a page.
main_heap_as_walked() {
	says '([.accounts[] | select(.kind == "glibc-main-heap") | .bytes] | add) as $row |
		.glibc.resident_bytes | . <= $row and . > $row - 3 * 4096'
}

# Between two regions, and behind the top.
# bats test_tags=release
@test "memory by sbrk that is not malloc's" {
	start explained "$TARGETS/explained"
	tell explained "fragment 20000" taken
	tell explained "foreign 8192" taken
	explain
	adds_up
	agrees_with_malloc explained
	says "$(account program-break) == 8388608"
	says 'any(.verdicts[]; .id == "program-break" and .bytes == 8388608)'
	main_heap_as_walked
	tell explained "fragment 100000" taken
	tell explained "foreign 4096" taken
	explain
	adds_up
	agrees_with_malloc explained
	says "$(account program-break) == 12582912"
	main_heap_as_walked
	finish explained
}

# bats test_tags=check
@test "arenas of threads" {
	MALLOC_ARENA_MAX=6 start explained "$TARGETS/explained"
	tell explained "arenas 12" taken
	explain
	adds_up
	agrees_with_malloc explained
	says '.glibc.arenas == 6 and (.glibc.list | length) == 6 and .glibc.list[0].main'
	says '([.glibc.list[].returned_by_trim_bytes] | add) == .glibc.returned_by_trim_bytes'
	says 'any(.accounts[]; .kind == "glibc-arenas" and .count == 5 and .retained_bytes > .bytes / 2)'
	says '.verdicts[0].text | contains("6 arenas") and contains("malloc_trim(0) returns") and
		contains("MALLOC_ARENA_MAX")'
	trims explained
	finish explained
}

@test "a heap of several pieces: an arena that outgrew its first" {
	start explained "$TARGETS/explained"
	tell explained "outgrow 400000" taken
	explain
	adds_up
	agrees_with_malloc explained
	says '.glibc.arenas == 2 and .glibc.system_bytes > 2 * 67108864'
	trims explained
	finish explained
}

@test "stacks of threads" {
	start explained "$TARGETS/explained"
	tell explained "stacks 70" taken
	explain
	adds_up
	says '.accounts[0] | .owner == "thread stacks: deep" and .count == 70 and
		.bytes >= 70 * 262144 and .bytes <= 70 * 300000'
	says '.verdicts[0] | .id == "thread-stacks" and (.text | contains("70 threads named deep")) and .returned_bytes == null'
	finish explained
}

@test "stacks that the kernel has joined with each other, or with data" {
	start explained "$TARGETS/explained"
	# The C library keeps 40 MiB of stacks, four of 8 MiB, of which it gives back all but the top.
	tell explained "bare 4" taken
	explain
	adds_up
	says '.accounts[] | select(.owner == "thread stacks: bare") | .count == 4 and
		.bytes >= 4 * 262144 and .bytes <= 4 * 300000'
	says '.accounts[] | select(.owner == "stacks of threads that have ended") | .count == 4 and
		.bytes >= 4 * 4096 and .bytes <= 4 * 32768'
	tell explained "within 3" taken
	explain
	adds_up 100
	says '.accounts[] | select(.owner == "thread stacks: bare") | .count == 7 and
		.bytes >= 7 * 262144 and .bytes <= 7 * 300000'
	says '.unknown_bytes >= 3 * 7 * 1048576 and .unknown_bytes <= 3 * 7.1 * 1048576'
	tell explained "lent 5" taken
	explain
	agrees_with_malloc explained
	says "$(account glibc-mmapped) | . >= 5 * 1048576 and . <= 5.1 * 1048576"
	says '.accounts[] | select(.owner == "thread stacks: bare") | .count == 7'
	finish explained
}

@test "blocks with mappings of their own, aligned or not" {
	start explained "$TARGETS/explained"
	tell explained "blocks 30" taken
	tell explained "aligned 10" taken
	explain
	adds_up
	agrees_with_malloc explained
	says "$(account glibc-mmapped) | . >= 40 * 1048576 and . <= 41 * 1048576"
	finish explained
}

@test "blocks whose mappings the program has split" {
	start explained "$TARGETS/explained"
	tell explained "split 20" taken
	explain
	adds_up
	agrees_with_malloc explained
	says "$(account glibc-mmapped) | . >= 20 * 1048576 and . <= 21 * 1048576"
	within 60 "$LIMPET" explain "$pid" --objects --json >"$work/explain.json"
	says '.census | .whole and .exact and any(.sizes[]; .from_bytes == 1048576 and .blocks_low == 20)'
	finish explained
}

@test "blocks whose first page the program has closed" {
	start explained "$TARGETS/explained"
	tell explained "closed 21" taken
	explain
	adds_up
	agrees_with_malloc explained
	says "$(account glibc-mmapped) | . >= 21 * 1048576 and . <= 22 * 1048576"
	says '.unknown_bytes < 1048576'
	within 60 "$LIMPET" explain "$pid" --objects --json >"$work/explain.json"
	says '.census | .whole and .exact and any(.sizes[]; .from_bytes == 1048576 and .blocks_low == 21)'
	finish explained
}

@test "a heap in parts, whose ends are not those of pages" {
	start explained "$TARGETS/explained"
	tell explained "shared-break 50000" taken
	within 60 "$LIMPET" explain "$pid" --objects --json >"$work/explain.json"
	adds_up
	agrees_with_malloc explained
	says '.census | .whole and .exact'
	finish explained
}

@test "what only looks like blocks is of no known owner, and so who may have it is named" {
	local library
	library=$(PATH=$PATH:/sbin ldconfig -p | awk '/libm\.so\.6.*x86-64/ { print $NF; exit }')
	cp "$library" libtcmalloc.so.4
	LD_PRELOAD=$PWD/libtcmalloc.so.4 start explained "$TARGETS/explained"
	tell explained "blocks 1" taken
	tell explained "forged 20" taken
	explain
	agrees_with_malloc explained
	says "$(account glibc-mmapped) == 1048576 + 4096"
	says '.unknown_bytes >= 20 * 1048576 and .unknown_bytes <= 21 * 1048576'
	says '.unknown_bytes as $all | .unknown_mappings[0].resident_bytes | . >= 19 * 1048576 and . <= $all'
	says '.verdicts[] | select(.id == "unknown") | .text | contains("tcmalloc in libtcmalloc.so.4")'
	finish explained
}

@test "shared memory and files" {
	start explained "$TARGETS/explained"
	tell explained "memfd 5" taken
	tell explained "shm 6" taken
	tell explained "sysv 7" taken
	tell explained "clean 8" taken
	tell explained "dirty 9" taken
	explain
	adds_up
	says "$(account memfd) == 5 * 1048576"
	says "$(account shm) == 6 * 1048576"
	says "$(account sysv) == 7 * 1048576"
	says "$(account private-data) | . >= 9 * 1048576 and . <= 10 * 1048576"
	says 'any(.accounts[]; .owner == "written pages of other files" and .bytes == 9 * 1048576)'
	says "$(account mapped-file) | . >= 8 * 1048576 and . <= 11 * 1048576"
	says 'any(.accounts[]; .kind == "memfd" and (.owner | contains("cache")))'
	says 'any(.verdicts[]; .id == "shared-memory" and (.text | startswith("18.0 MiB are shared")))'
	finish explained
}

@test "shared memory that is mapped privately" {
	local shmem
	start explained "$TARGETS/explained"
	tell explained "private 12" taken
	explain
	adds_up
	says "$(account memfd) == 12 * 1048576"
	shmem=$(memory RssShmem)
	says "$(account memfd) == \$kib * 1024" --argjson kib "$shmem"
	says 'any(.accounts[]; .owner == "written pages of other files" and .bytes == 12 * 1048576)'
	says "$(account file-pages) < 4000000"
	says 'any(.verdicts[]; .id == "shared-memory" and (.text | startswith("12.0 MiB are shared")))'
	says 'all(.verdicts[]; .id != "file-pages")'
	finish explained
}

@test "memory that only looks like a file" {
	start explained "$TARGETS/explained"
	tell explained "devzero 6" taken
	tell explained "named 7" taken
	explain
	adds_up 100
	says '.unknown_bytes >= 6 * 1048576 and .unknown_bytes <= 6.2 * 1048576'
	says "$(account shared-anonymous) == 7 * 1048576"
	says '[.accounts[] | select(.kind == "file-pages" or .kind == "mapped-file" or .kind == "private-data") | .bytes] |
		add | . < 4000000'
	finish explained
}

@test "memory that nobody explains is not given to anybody" {
	start explained "$TARGETS/explained"
	tell explained "anonymous 20" taken
	explain
	adds_up 100
	says '.unknown_bytes >= 20 * 1048576 and .unknown_bytes <= 20.2 * 1048576'
	says '.accounts[-1].kind == "unknown" and .verdicts[0].id == "unknown" and .verdicts[0].next == "limpet pages"'
	says '.verdicts[0].text | contains("limpet pages \($pid) shows which stacks")' --argjson pid "$pid"
	says '.unknown_mappings | length >= 1 and length <= 5 and ([.[].resident_bytes] | . == (sort | reverse))'
	says '.unknown_mappings[0] | .resident_bytes == 20 * 1048576 and .permissions == "rw-p" and
		any($maps | split("\n")[]; "0x" + split("-")[0] == $start)' --arg maps "$(<"/proc/$pid/maps")" \
		--arg start "$(jq -r '.unknown_mappings[0].start' <"$work/explain.json")"
	run --separate-stderr "$LIMPET" explain "$pid"
	[[ $status == 0 && $output == *"   mappings with most memory of no known owner"*"     20.0 MiB   "*-*" rw-p"* ]]
	[[ ! $output =~ [^$'\n']{81} ]]
	finish explained
}

@test "a static program" {
	start explained "$TARGETS/explained-static"
	tell explained "fragment 100000" taken
	tell explained "arenas 2" taken
	explain
	adds_up
	agrees_with_malloc explained
	says '.glibc.arenas == 3'
	trims explained
	finish explained
}

@test "jemalloc: blocks, holes, and free pages until they are purged" {
	local before after said
	# Otherwise pages go back as time passes.
	MALLOC_CONF=dirty_decay_ms:-1 start explained "$TARGETS/explained-jemalloc"
	tell explained "fragment 300000" taken
	tell explained "small 100000" taken
	tell explained "info" info
	answer=${answer#info }
	explain
	adds_up 10
	# A page that was never touched is active, and not resident.
	says "$(account jemalloc-heap) / \$info.active | . >= 0.97 and . <= 1.001" --argjson info "$answer"
	says '.accounts[] | select(.kind == "jemalloc-heap") | (.bytes - .retained_bytes) / $info.allocated |
		. >= 0.9 and . <= 1.1' --argjson info "$answer"
	says 'any(.verdicts[]; .id == "jemalloc-fragmented" and .returned_bytes == null)'
	says 'any(.verdicts[]; .id == "jemalloc-free" and .returned_bytes > 5000000)'
	said=$(jq '.verdicts[] | select(.id == "jemalloc-free") | .returned_bytes' <explain.json)
	before=$(rss_of "$pid")
	tell explained trim trimmed
	after=$(rss_of "$pid")
	echo "said $said, measured $((before - after))"
	((100 * (before - after) >= 85 * said && 100 * (before - after) <= 115 * said))
	explain
	adds_up 10
	says '[.accounts[] | select(.kind == "jemalloc-free-pages")] == []'
	finish explained
}

# What is free inside spans, pages that are free for good, and tables.
@test "gperftools' tcmalloc: blocks, holes, and free pages until they are released" {
	local before after said heap
	start classes "$TARGETS/classes-tcmalloc"
	tell classes "make 90 400000" "done"
	tell classes "drop 2" "done"
	tell classes bytes bytes
	explain
	adds_up 15
	heap='.accounts[] | select(.owner == "tcmalloc: heap")'
	says "$heap | .bytes - .retained_bytes >= \$used - 300000 and .bytes - .retained_bytes <= \$used + 300000" --argjson used "${answer#bytes }"
	says "any(.accounts[]; .owner == \"tcmalloc: its own tables\" and .kind == \"tcmalloc-heap\")"
	says 'any(.verdicts[]; .id == "tcmalloc-fragmented" and .bytes > 15000000 and .returned_bytes == null) and
		any(.verdicts[]; .id == "tcmalloc-live")'
	tell classes "make 90 200000" "done"
	tell classes "drop 1" "done"
	explain
	adds_up 15
	says '.accounts[] | select(.kind == "tcmalloc-free-pages") | .retained_bytes == .bytes and .remedy == "MallocExtension_ReleaseFreeMemory()"'
	says 'any(.verdicts[]; .id == "tcmalloc-free" and .returned_bytes > 5000000)'
	said=$(jq '.verdicts[] | select(.id == "tcmalloc-free") | .returned_bytes' <explain.json)
	before=$(rss_of "$pid")
	tell classes release "done"
	after=$(rss_of "$pid")
	echo "said $said, measured $((before - after))"
	((100 * (before - after) >= 95 * said && 100 * (before - after) <= 105 * said))
	explain
	says '[.accounts[] | select(.kind == "tcmalloc-free-pages")] == []'
	finish classes
}

# bats test_tags=release
@test "jemalloc: free pages that are locked stay" {
	local before after
	MALLOC_CONF=dirty_decay_ms:-1 start explained "$TARGETS/explained-jemalloc"
	tell explained "fragment 300000" taken
	tell explained "lock" locked
	[[ $answer == "locked 1" ]] || skip "memory may not be locked here"
	explain
	adds_up 10
	says '[.accounts[] | select(.kind == "jemalloc-free-pages")] == []'
	says '.accounts[] | select(.kind == "jemalloc-locked") | .bytes > 5000000 and .retained_bytes == .bytes and .remedy == null'
	says 'any(.verdicts[]; .id == "jemalloc-locked" and .returned_bytes == null) and all(.verdicts[]; .id != "jemalloc-free")'
	before=$(rss_of "$pid")
	tell explained trim trimmed
	after=$(rss_of "$pid")
	((before - after < 1000000)) || fail "$((before - after)) bytes went back"
	finish explained
}

@test "jemalloc: large blocks" {
	MALLOC_CONF=dirty_decay_ms:-1 start explained "$TARGETS/explained-jemalloc"
	tell explained "blocks 200" taken
	tell explained "info" info
	answer=${answer#info }
	explain
	adds_up 10
	says "$(account jemalloc-heap) / \$info.active | . >= 0.97 and . <= 1.001" --argjson info "$answer"
	finish explained
}

# The search for an allocator's structures must not take it for one of them, again and again.
# bats test_tags=release
@test "a static table of pointers to blocks, with jemalloc and mimalloc" {
	local name library kind missing=
	for name in jemalloc mimalloc; do
		library=$(PATH=$PATH:/sbin ldconfig -p | awk -v name="lib$name.so" 'index($0, name) { print $NF; exit }')
		if [[ ! $library ]]; then
			missing+=" lib$name"
			continue
		fi
		kind=$name-heap
		LD_PRELOAD=$library start "explained.$name" "$TARGETS/explained"
		tell "explained.$name" "table 1000000" taken
		explain
		adds_up 10
		says "$(account "$kind")"' > 100000000'
		says 'all(.verdicts[]; .id != "late" and .id != "unknown")'
		finish "explained.$name"
	done
	[[ ! $missing ]] || skip "not installed:$missing"
}

@test "mimalloc, as a library, and an allocator that is not recognized" {
	local library
	library=$(PATH=$PATH:/sbin ldconfig -p | awk '/libmimalloc\.so/ { print $NF; exit }')
	[[ $library ]] || skip "libmimalloc is not installed"
	LD_PRELOAD=$library start explained "$TARGETS/explained"
	tell explained "fragment 300000" taken
	# Those of threads are accessible in part.
	tell explained "arenas 6" taken
	explain
	adds_up 10
	says "$(account mimalloc-heap)"' > 150000000'
	# What is of no known owner besides is not of a heap that is in the table.
	tell explained "anonymous 64" taken
	explain
	says '.unknown_bytes >= 64000000 and (.verdicts[] | select(.id == "unknown").text | contains("mimalloc") | not)'
	finish explained
	# One segment proves nothing.
	LD_PRELOAD=$library start small "$TARGETS/explained"
	tell small "fragment 20000" taken
	explain
	adds_up 100
	says '.unknown_bytes > 3000000 and (.verdicts[] | select(.id == "unknown").text | contains("mimalloc"))'
	says '.verdicts[] | select(.id == "unknown") | .next == "limpet attach" and (.text | contains("limpet attach"))'
	finish small
}

@test "the heap of Python, as Python counts it" {
	cat >explained.py <<-'end'
		import os, sys
		lists = [[i, str(i)] for i in range(200000)]
		kept = lists[::7]
		lists = i = None
		print("ready", os.getpid(), flush=True)
		while sys.stdin.readline().strip() == "count":
		    print("counted", flush=True)
		    sys._debugmallocstats()
	end
	start explained /usr/bin/python3 explained.py
	explain
	adds_up 10
	tell explained count counted
	finish explained
	# "12345 bytes in allocated blocks             =    1,234,567"
	used=$(sed -n 's/^# bytes in allocated blocks *= *//p' explained.err | tr -d ,)
	says "$(account python-arenas)"' > 10000000'
	says '.accounts[] | select(.kind == "python-arenas") | (.bytes - .retained_bytes) / $used | . >= 0.95 and . <= 1.05' \
		--argjson used "$used"
	says 'any(.verdicts[]; .id == "python-free")'
}

@test "the heap of V8, as node counts it" {
	command -v node >/dev/null || skip "node is not installed"
	cat >explained.js <<-'end'
		const v8 = require("v8"), kept = [];
		for (let i = 0; i < 300000; i++) kept.push({ number: i, text: String(i) });
		kept.push(new Array(3e6).fill(1.5));
		global.gc();
		console.log(`ready ${process.pid}`);
		require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
			if (line !== "count") process.exit(kept.length ? 0 : 1);
			const bytes = {};
			for (const space of v8.getHeapSpaceStatistics()) bytes[space.space_name] = space.physical_space_size;
			console.log(`counted ${JSON.stringify(bytes)}`);
		});
	end
	start explained node --expose-gc explained.js
	tell explained count counted
	explain
	adds_up 10
	answer=${answer#counted }
	says "$(account v8-heap)"' / ([$counted[]] | add) | . >= 0.9 and . <= 1.1' --argjson counted "$answer"
	says '[.accounts[] | select(.owner == "V8: large objects").bytes] | add | . >= 24000000'
	finish explained
}

# bats test_tags=release
@test "the heaps of Java and Go" {
	# The whole heap is touched at the start.
	# $TARGETS/Load.class
	start explained java -XX:-UsePerfData -XX:+UseSerialGC -Xms64m -Xmx64m -XX:+AlwaysPreTouch -cp "$TARGETS" Load
	explain
	adds_up 10
	says "$(account java-heap)"' | . >= 66500000 and . <= 67200000'
	finish explained
	start plain "$TARGETS/plain-go"
	explain
	says 'any(.accounts[]; .kind == "go-heap") and .glibc == null'
	finish plain
}

# The rows are of slightly different moments, but whose they are is known in each run.
finds_arenas() {
	explain || return 1
	says '([.accounts[].bytes] | add) / .rss_bytes | . >= 0.98 and . <= 1.02' || return 1
	says '.glibc.arenas == $arenas and all(.verdicts[]; .bytes <= $rss)' --argjson arenas "$1" \
		--argjson rss "$(jq .rss_bytes <"$work/explain.json")"
}

@test "a program that allocates all the time" {
	local arenas
	for arenas in 1 4; do
		MALLOC_ARENA_MAX=$arenas start "explained.$arenas" "$TARGETS/explained"
		tell "explained.$arenas" "fragment 100000" taken
		tell "explained.$arenas" "churn 3" taken
		for ((look = 0; look < LOOKS; look++)); do
			finds_arenas "$arenas"
			says '.unknown_bytes < 1000000'
		done
		finish "explained.$arenas"
	done
}

@test "a program that grows all the time" {
	local arenas
	for arenas in 1 2; do
		MALLOC_ARENA_MAX=$arenas start "explained.$arenas" "$TARGETS/explained"
		tell "explained.$arenas" "grow 300" taken
		for ((look = 0; look < LOOKS; look++)); do
			finds_arenas "$arenas"
		done
		finish "explained.$arenas"
	done
}

@test "a heap whose top is just being moved" {
	start explained "$TARGETS/explained"
	tell explained "fragment 100000" taken
	tell explained "hide" hidden
	explain
	tell explained "show" shown
	adds_up
	agrees_with_malloc explained
	finish explained
}

# page_out ADDRESS BYTES: out of the target, which waits.
page_out() {
	/usr/bin/python3 - "$pid" "$1" "$2" <<-'end'
		import ctypes, os, sys
		pid, start, size = int(sys.argv[1]), int(sys.argv[2], 16), int(sys.argv[3])
		class Range(ctypes.Structure):
		    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]
		call = ctypes.CDLL(None, use_errno=True).syscall
		page = Range(start, size)
		if call(440, call(434, pid, 0), ctypes.byref(page), ctypes.c_ulong(1), 21, 0) != size:
		    sys.exit(os.strerror(ctypes.get_errno()))
	end
}

# needs_swap: or skip.
needs_swap() {
	local swaps
	mapfile -t swaps </proc/swaps
	((${#swaps[@]} > 1)) || skip "there is no swap"
}

@test "glibc's state is swapped out" {
	local map perms path
	needs_swap
	start explained "$TARGETS/explained"
	tell explained "arenas 2" taken
	tell explained "fragment 300000" taken
	while read -r map perms _ _ _ path; do
		[[ $perms == rw-p && $path == */libc.so.6 ]] || continue
		page_out "${map%-*}" $((0x${map#*-} - 0x${map%-*})) || skip "no page can be swapped out"
	done <"/proc/$pid/maps"
	(($(memory VmSwap) > 0)) || skip "no page was swapped out"
	explain
	adds_up
	says '.glibc | .arenas == 3 and .unread_arenas == 3 and .free_bytes == null and .system_bytes == null'
	says '.glibc.list[0] | .main and .address == null and .resident_bytes > 20000000'
	says 'any(.verdicts[]; .id == "glibc-unread" and .bytes > 30000000 and (.text | contains("swapped out")))'
	says 'any(.accounts[]; .kind == "glibc-arenas" and .count == 2 and .retained_bytes == null)'
	# Nothing was swapped in for that.
	(($(memory VmSwap) > 0))
	finish explained
}

@test "arenas of which only the main one is not swapped out" {
	local map perms path
	needs_swap
	MALLOC_ARENA_MAX=3 start explained "$TARGETS/explained"
	tell explained "arenas 2" taken
	tell explained "fragment 300000" taken
	while read -r map perms _ _ _ path; do
		[[ $perms == rw-p && ! $path && $map == *000000-* ]] || continue
		((0x${map%-*} % 0x4000000 == 0)) || continue
		page_out "${map%-*}" 4096 || skip "no page can be swapped out"
	done <"/proc/$pid/maps"
	(($(memory VmSwap) > 0)) || skip "no page was swapped out"
	explain
	adds_up
	says '.glibc | .arenas == 3 and .unread_arenas == 2 and .free_bytes == null'
	says '[.glibc.list[] | select(.main)] | length == 1 and .[0].returned_by_trim_bytes > 1000000'
	says '[.glibc.list[] | select(.main | not) | .resident_bytes > 1000000] | length == 2 and all'
	finish explained
}

@test "a program without glibc, and one that is captured" {
	start storm "$TARGETS/storm-musl" --threads 1
	explain
	says '.glibc == null and ([.accounts[].bytes] | add) == .rss_bytes'
	finish storm
	start explained "$TARGETS/explained"
	attach "$pid" -d 1h
	explain
	adds_up
	says 'any(.accounts[]; .kind == "limpet" and .owner == "limpet itself")'
	stop "$pid"
	finish explained
}

@test "memory that is shared since a fork stays shared" {
	local shared after
	start explained "$TARGETS/explained"
	tell explained "fragment 300000" taken
	tell explained "anonymous 20" taken
	tell explained "stacks 200" taken
	tell explained "fork" taken
	shared=$(memory Shared_Dirty)
	((shared > 150000))
	explain
	adds_up 30
	agrees_with_malloc explained
	after=$(memory Shared_Dirty)
	echo "shared before $shared, after $after"
	((after >= shared - 64))
	finish explained
}

@test "heads of libraries that are not in memory are not read" {
	local before
	# Who looks up a name reads them.
	start explained env LD_BIND_NOW=1 "$TARGETS/explained"
	tell explained "heads 1" taken
	before=$(heads_of "$pid")
	explain
	adds_up
	[[ $(heads_of "$pid") == "$before" && $before == 0 ]]
	finish explained
}

# Resident KiB of the first segments of libraries.
heads_of() {
	awk '/^[0-9a-f]+-/ { head = $3 == "00000000" && $6 ~ "[.]so" }
		/^Rss:/ && head { sum += $2 } END { print sum + 0 }' "/proc/$1/smaps"
}

@test "what pointers lead to is not touched: no page, no page table, nobody is waited for" {
	local how resident tables
	for how in untouched awaited; do
		start "explained.$how" "$TARGETS/explained"
		tell "explained.$how" "fragment 10000" taken
		tell "explained.$how" "$how 8192" taken
		resident=$(memory VmRSS) tables=$(memory VmPTE)
		explain
		echo "$how: resident $resident, then $(memory VmRSS); page tables $tables, then $(memory VmPTE)"
		(($(memory VmPTE) == tables))
		(($(memory Rss) <= resident + 100))
		agrees_with_malloc "explained.$how"
		finish "explained.$how"
	done
}

@test "heaps that are shared since a fork, and locked ones" {
	start explained "$TARGETS/explained"
	tell explained "fragment 300000" taken
	tell explained "fork" taken
	explain
	says 'any(.verdicts[]; .id == "glibc-shared") and .glibc.shared_bytes > 50000000 and .glibc.locked == false'
	trims explained
	finish explained
	# A byte of it is locked: a page stays.
	start pinned "$TARGETS/explained"
	tell pinned "fragment 300000" taken
	tell pinned "pin 1" taken
	explain
	agrees_with_malloc pinned
	says '.glibc.locked == false and .glibc.returned_by_trim_bytes > 50000000'
	trims pinned
	finish pinned
	# A part of it, with blocks in use as well.
	start parted "$TARGETS/explained"
	tell parted "fragment 300000" taken
	tell parted "partly 40" locked
	[[ $answer == "locked 1" ]] || skip "memory may not be locked here"
	explain
	agrees_with_malloc parted
	says '.glibc.locked == false and .glibc.returned_by_trim_bytes > 50000000'
	says '.verdicts[] | select(.id == "glibc-locked") | .bytes > 18000000 and .bytes < 25000000'
	says '.verdicts[] | select(.id == "glibc-fragmented") | .bytes > 55000000 and .bytes < 65000000'
	trims parted
	finish parted
	start locked "$TARGETS/explained"
	tell locked "arenas 2" taken
	tell locked "fragment 300000" taken
	tell locked "lock" locked
	[[ $answer == "locked 1" ]] || skip "memory may not be locked here"
	explain
	agrees_with_malloc locked
	says '.glibc.locked and .glibc.returned_by_trim_bytes < 1000000'
	says 'any(.verdicts[]; .id == "glibc-locked")'
	says 'all(.verdicts[]; .id != "glibc-free" or .returned_bytes < 1000000)'
	trims_little locked
	finish locked
}

@test "threads of a pool are one group" {
	start explained "$TARGETS/explained"
	tell explained "numbered 70" taken
	explain
	adds_up
	says '[.accounts[] | select(.kind == "thread-stacks")] | length == 1 and
		.[0].owner == "thread stacks: pool-1-thr-*" and .[0].count == 70'
	says '.verdicts[0] | .id == "thread-stacks" and (.text | contains("70 threads named pool-1-thr-*"))'
	finish explained
}

# bats test_tags=release
@test "heaps that name each other in a circle" {
	start explained "$TARGETS/explained"
	tell explained "fragment 100000" taken
	tell explained "circle 200000" taken
	explain
	# Of the other arena nothing is known, so of all together neither.
	says '.glibc | .arenas == 2 and .unread_arenas == 1 and .free_bytes == null and .returned_by_trim_bytes == null'
	says '.glibc.list[0].returned_by_trim_bytes > 10000000 and .glibc.list[1].returned_by_trim_bytes == null'
	says '.verdicts[] | select(.id == "glibc-free") | .returned_bytes == null and (.text | contains("at least"))'
	finish explained
}

@test "a heap that is damaged, or in part given back, is not said to change" {
	local how
	for how in damage discard; do
		start "explained.$how" "$TARGETS/explained"
		tell "explained.$how" "fragment 100000" taken
		tell "explained.$how" "$how" taken
		explain
		adds_up
		says '.glibc | .unread_arenas == 1 and .free_bytes == null'
		says "$(account glibc-main-heap)"' > 40000000'
		says '.verdicts[] | select(.id == "glibc-unread").text | contains("not as glibc keeps it (damaged, or")'
		finish "explained.$how"
	done
}

# bats test_tags=release
@test "files of data that nobody has read are not read" {
	local resident
	mkdir files
	start sharing "$TARGETS/sharing" files
	resident=$(memory Rss)
	explain
	(($(memory Rss) < resident + 1000)) || fail "$(memory Rss) KiB are resident after $resident"
	finish sharing
}

@test "pages that were only read are nobody's memory" {
	local before
	start explained "$TARGETS/explained"
	tell explained "fragment 20000" taken
	before=$(rss_of "$pid")
	tell explained "zeros 256" taken
	explain
	adds_up
	agrees_with_malloc explained
	# There are kernels that give a page of its own to a read, too: then it counts in RSS.
	says '.glibc.free_bytes > 256000000 and .glibc.returned_by_trim_bytes < 20000000 + $taken' \
		--argjson taken $(($(rss_of "$pid") - before))
	trims explained
	finish explained
}

# grew KIND BYTES: by so much, within a tenth and 1 MiB more.
grew() {
	says '.accounts[] | select(.kind == $kind) | .bytes - .before_bytes |
		. >= ($bytes | tonumber) and . <= ($bytes | tonumber) * 1.1 + 1048576' --arg kind "$1" --arg bytes "$2"
}

# The same words and figures of the same moment: of the process after a capture, and of its trace.
@test "a trace: what grew while it was captured, in the words that are said of the process" {
	start explained "$TARGETS/explained"
	attach "$pid" -d 1h
	tell explained "fragment 100000" taken
	tell explained "memfd 20" taken
	tell explained "anonymous 8" taken
	stop "$pid"
	explain
	jq '[.accounts[] | {owner, kind, bytes, retained_bytes, count}]' "$work/explain.json" >now.json
	jq .resident.parts[].name "$work/explain.json" >now.parts
	within 60 "$LIMPET" explain "$trace" --json >"$work/explain.json"
	says '([.accounts[].bytes] | add) == .rss_bytes and .pid == $pid and .command == "explained"' --argjson pid "$pid"
	says '([.resident.parts[].bytes] | add) == .resident.bytes and .resident.bytes == .rss_bytes and .resident.moment == "end"'
	says '([.resident.parts[].before_bytes] | add) == .resident.before_bytes and .resident.before_bytes < .rss_bytes'
	says '[.accounts[] | select(.bytes > 0) | {owner, kind, bytes, retained_bytes, count}] == $now[0]' --slurpfile now now.json
	jq .resident.parts[].name "$work/explain.json" | diff now.parts -
	grew memfd 20971520
	grew unknown 8388608
	# 100,000 blocks of 458 bytes on average, of which glibc makes multiples of 16 with a word more.
	grew glibc-main-heap 46000000
	says '.resident.parts[0] | .name == "glibc\u0027s heap" and (.text | test("^glibc\u0027s heap [0-9.]+ MiB \\(\\+4[5-9][0-9.]* MiB\\)"))'
	"$LIMPET" report "$trace" --json >report.json
	says '.resident == $report[0].resident and .resident.text == $report[0].verdict.sentences[1]' --slurpfile report report.json
	says '.verdicts[0].text == $report[0].verdict.sentences[0]' --slurpfile report report.json
	run -0 "$LIMPET" explain "$trace"
	[[ $output == *"'explained' ($pid) at the end of "*" resident: "*"change   free in it   owner"* ]]
	finish explained
}

@test "a trace of a program that has ended: what it had before the capture" {
	start explained "$TARGETS/explained"
	attach "$pid" -d 1h
	finish explained
	attached 0
	within 60 "$LIMPET" explain "$trace" --json >"$work/explain.json"
	says '.resident.moment == "before" and all(.accounts[]; .before_bytes == null)'
	run -0 "$LIMPET" explain "$trace"
	[[ $output == *"'explained' ($pid): "*" resident before the capture: "* ]]
}

@test "what it cannot explain" {
	run -1 --separate-stderr "$LIMPET" explain 4194304
	[[ $stderr == "limpet: no process has the pid 4194304"* && -z $output ]]
	run -1 --separate-stderr "$LIMPET" explain 2
	[[ $stderr == *"kernel"* ]]
	run -2 --separate-stderr "$LIMPET" explain
	run -2 --separate-stderr "$LIMPET" explain 1 2
	run -1 --separate-stderr "$LIMPET" explain "$work/none.limpet"
	[[ $stderr == "limpet: cannot read '$work/none.limpet'"* ]]
	run -2 --separate-stderr "$LIMPET" explain 1 file.limpet
	start explained "$TARGETS/explained"
	tell explained "stacks 1" taken
	local tids=("/proc/$pid/task/"*)
	run -1 --separate-stderr "$LIMPET" explain "${tids[-1]##*/}"
	[[ $stderr == *"is a thread of process $pid"*"hint: limpet explain $pid"* ]]
	finish explained
}
