#!/usr/bin/env bats
# Real programs under load: their own results are right, their work goes on, and the report names the
# function that keeps the memory.
# time-limit: 900

load helpers
setup() { begin; }
# Captures upon a program under load; more of them: make torture.
: "${PROGRAM_CAPTURES:=1}"
teardown() {
	end
	rm -f "${perf_map:-}"
}

# What is expected of a report is asked for in one go: those here are up to 90 MB, which jq reads for seconds.
# The site that holds most has the function $f.
top_site='any(.sites[0].stack[]; .function // "" | test($f))'

# works_on NAME ROUNDS: so many more than now.
works_on() {
	local name=$1 before
	tell "$name" count '{' || return 1
	before=$(jq .rounds <<<"$answer")
	wait_until 60 has_done "$name" $((before + $2))
}
has_done() {
	tell "$1" count '{' && json_says --argjson n "$2" '.rounds >= $n' <<<"$answer"
}

# ------------------------------------------------------------------ C++ and Rust

# leaky NAME FUNCTION_REGEX FILE KEY COMMAND...: speaks as leak.cc and churn.rs do.
leaky() {
	local name=$1 function=$2 file=$3 bytes_key=$4 kept bytes
	shift 4
	start "$name" "$@" || return 1
	tell "$name" go going || return 1
	attach "$pid" || return 1
	tell "$name" "leak 4000" leaked || return 1
	wait_until 60 recorded "$pid" 50000 || return 1
	stop "$pid" || return 1
	good_capture || return 1
	tell "$name" count '{' || return 1
	bytes=$(jq ".$bytes_key" <<<"$answer")
	kept=$(jq ".kept * .$bytes_key" <<<"$answer")
	expect '.capture.truncated_stacks == 0 and .totals.allocations > 10000 and
		(.sites[0] | .live_bytes == $kept and .live_allocations == 4000 and .allocated_bytes / .allocations == $bytes) and
		any(.sites[0].stack[]; (.function | test($f)) and (.file // "" | endswith($file)) and .line > 0)' \
		--argjson kept "$kept" --argjson bytes "$bytes" --arg f "$function" --arg file "$file" || return 1
	nothing_of_ours "$pid" || return 1
	rounds "$pid" "$PROGRAM_CAPTURES" || return 1
	works_on "$name" 50 || return 1
	tell "$name" hold held || return 1
	finish "$name"
}

# track: language | C++ | attach | slots; operators new and delete go to malloc
@test "C++: maps, strings and exceptions; the leak is named with file and line" {
	leaky leak 'Registry::remember' leak.cc session_bytes "$TARGETS/leak"
}

# track: language | Rust, system allocator | attach | slots; names demangled
@test "Rust: collections and panics; the leak is named with file and line" {
	leaky churn 'keep_forever' churn.rs block_bytes "$TARGETS/churn"
}

# from_start FUNCTION_REGEX KEY COMMAND...: the same programs under `limpet run`.
from_start() {
	local function=$1 bytes_key=$2 bytes
	shift 2
	# Most of it while nobody else works: python's threads take turns.
	printf '%s\n' "leak 3900" go "leak 100" hold count quit |
		within 60 "$LIMPET" run -q --on-overload wait -o run.limpet -- "$@" >run.say 2>run.err ||
		fail "$(<run.err)" || return 1
	trace=run.limpet
	good_capture || return 1
	bytes=$(grep '^{' run.say | jq ".$bytes_key")
	# Beside the blocks there is the list of them.
	expect '.capture.mode == "run" and .capture.end == "target-exit" and
		([.sites[] | select(.allocations > 0 and (.allocated_bytes / .allocations | . >= $bytes and . < $bytes + 100)) |
		select(any(.stack[]; .function // "" | test($f))) | .allocations] | add == 4000)' \
		--arg f "$function" --argjson bytes "$bytes"
}

# track: language | C++ | run
@test "run: C++" {
	from_start 'Registry::remember' session_bytes "$TARGETS/leak"
}

# track: language | Rust, system allocator | run
@test "run: Rust" {
	from_start 'keep_forever' block_bytes "$TARGETS/churn"
}

# track: runtime | python3 | run
# bats test_tags=release
@test "run: Debian's python3" {
	from_start 'PyByteArray|bytearray' block_bytes /usr/bin/python3 "$root/test/targets/pyload.py"
}

# track: runtime | python3 with `PYTHONMALLOC=malloc` | run
# bats test_tags=release
@test "run: Debian's python3, every object by malloc" {
	PYTHONMALLOC=malloc from_start 'PyByteArray|bytearray' block_bytes /usr/bin/python3 "$root/test/targets/pyload.py"
}

# ------------------------------------------------------------------ Go

# The stacks of goroutines are not walked: they end where C was called.
go_with_c() {
	start "$1" "$TARGETS/$1" || return 1
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and ([.findings[] | select(.severity == "warning") | .text + .hint] |
		any(test("cgo.*heap stays unseen: up to [0-9]+%.*go tool pprof")))' <doctor.json || fail "$(<doctor.json)" || return 1
	tell "$1" go going || return 1
	attach "$pid" || return 1
	tell "$1" "leak 1000" leaked || return 1
	wait_until 60 recorded "$pid" 50000 || return 1
	stop "$pid" || return 1
	good_capture || return 1
	expect '.capture.unseen_rss_share > 0 and .totals.allocations > 10000 and
		([.sites[] | select(any(.stack[]; .function == "keep_in_c"))] |
		[(map(.live_allocations) | add), (map(.live_bytes) | add)] == [1000, 1000 * 5000])' || return 1
	nothing_of_ours "$pid" || return 1
	rounds "$pid" "$PROGRAM_CAPTURES" || return 1
	works_on "$1" 100 || return 1
	tell "$1" hold held || return 1
	finish "$1"
}

# track: go | Go with cgo, dynamic; static | attach run | slots; entries. What its C code allocates; Go's own heap is reported as unseen, and stacks end where C was called
@test "Go with cgo: its C side is exact, its own heap is said to be unseen" {
	go_with_c churn-go
	from_start keep_in_c block_bytes "$TARGETS/churn-go"
}

# bats test_tags=release
@test "Go with cgo, static: its C side is exact, its own heap is said to be unseen" {
	go_with_c churn-go-static
	from_start keep_in_c block_bytes "$TARGETS/churn-go-static"
}

# ------------------------------------------------------------------ Java

# $TARGETS/Load.class. -Xbatch: what is called often enough is compiled then and there.
java=(java -Xbatch -XX:+PreserveFramePointer -XX:-UsePerfData -XX:+UseSerialGC -Xmx64m -XX:MaxDirectMemorySize=256m -cp "$TARGETS" Load)

# track: runtime | a JVM | attach | native memory: direct buffers, zlib, the JVM itself; Java functions have names after `jcmd PID Compiler.perfmap`, with -XX:+PreserveFramePointer whole stacks
@test "Java: direct buffers and zlib; compiled code has names" {
	start java "${java[@]}"
	perf_map=/tmp/perf-$pid.map
	"$LIMPET" doctor "$pid" --json | json_says '[.findings[] | select(.id == "runtime") | .text] | any(test("perfmap"))'
	tell java go going
	# By then the compiler has seen it.
	works_on java 20000
	attach "$pid"
	tell java "leak 1000" leaked
	works_on java 2000
	jcmd "$pid" Compiler.perfmap >jcmd.say
	stop "$pid"
	good_capture
	expect '[.sites[] | select(any(.stack[]; .function == "Unsafe_AllocateMemory0"))] |
		[(map(.live_allocations) | add), (map(.live_bytes) | add)] == [1000, 1000 * 20000]'
	expect 'any(.sites[]; any(.stack[]; .function == "deflateInit2_") and
		any(.stack[]; .function // "" | test("Load.churnRound")) and any(.stack[]; .function // "" | test("JavaCalls::")))'
	nothing_of_ours "$pid"
	rounds "$pid" "$PROGRAM_CAPTURES"
	works_on java 100
	tell java hold held
	finish java
}

# track: runtime | a JVM | run
# bats test_tags=release
@test "run: Java" {
	from_start Unsafe_AllocateMemory0 block_bytes "${java[@]}"
}

# ------------------------------------------------------------------ Python

# Debian's python is stripped: the exported function has a name, but no line.
leaky_python() {
	local name=$1
	shift
	start "$name" "$@" /usr/bin/python3 "$root/test/targets/pyload.py" || return 1
	tell "$name" go going || return 1
	attach "$pid" || return 1
	tell "$name" "leak 3000" leaked || return 1
	works_on "$name" 50 || return 1
	stop "$pid" || return 1
	good_capture || return 1
	expect ".totals.allocations > 1000 and .sites[0].live_allocations == 3000 and
		(.sites[0].live_bytes | . >= 3000 * 20000 and . < 3000 * 20100) and $top_site" --arg f 'PyByteArray|bytearray' || return 1
	nothing_of_ours "$pid" || return 1
	rounds "$pid" "$PROGRAM_CAPTURES" || return 1
	works_on "$name" 60 || return 1
	tell "$name" hold held || return 1
	tell "$name" count '{' || return 1
	json_says '.wrong == 0 and .rounds > 100' <<<"$answer" || return 1
	finish "$name"
}

# track: runtime | python3 | attach | native frames by symbols; objects up to 512 bytes share pymalloc's arenas, which show as mmap
@test "Debian's python3" {
	leaky_python python env
}

# track: runtime | python3 with `PYTHONMALLOC=malloc` | attach | each object by itself
# bats test_tags=release
@test "Debian's python3, every object by malloc" {
	leaky_python python env PYTHONMALLOC=malloc
}

# ------------------------------------------------------------------ node.js

serving() {
	grep -q '^ready ' "$work/server.say"
}

# node_server COMMAND... NODE: a server and its load. Sets `pid` and `port`.
node_server() {
	local server
	LEAK_EVERY=10 "$@" "$root/test/targets/server.js" >server.say 2>server.err </dev/null 3>&- &
	job_of[server]=$!
	wait_until 30 serving || return 1
	read -r _ server port <server.say
	start load "${*: -1}" "$root/test/targets/load.js" "$port" 4 || return 1
	pid=$server
	tell load "window warm-up" '{'
}

has_kept() {
	(($(curl -sf "http://127.0.0.1:$port/stats" | jq .kept) >= $1))
}

# answers_on REQUESTS: so many more than now.
answers_on() {
	local before
	before=$(curl -sf "http://127.0.0.1:$port/stats" | jq .requests)
	wait_until 120 has_answered $((before + $1))
}
has_answered() {
	(($(curl -sf "http://127.0.0.1:$port/stats" | jq .requests) >= $1))
}

node_under_load() {
	local node=$1 kept_before
	node_server "$node" || return 1
	tell load "window before" '{' || return 1
	look_at_server before || return 1
	attach "$pid" || return 1
	kept_before=$(curl -sf "http://127.0.0.1:$port/stats" | jq .kept)
	# Enough that what waits for V8's collector is less, however few requests the machine can do.
	wait_until 120 has_kept $((kept_before + 50)) || return 1
	stop "$pid" || return 1
	nothing_of_ours "$pid" || return 1
	tell load "window during" '{' || return 1
	json_says '.errors == 0 and .requests > 100' <<<"$answer" || return 1
	good_capture || return 1
	# The streams that stay were opened by zlib for node: one deflateInit2_ each.
	expect ".totals.allocations > 1000 and $top_site" --arg f 'deflateInit2_|[zZ]lib' || return 1
	rounds "$pid" "$PROGRAM_CAPTURES" || return 1
	# Four of them may be on their way to the client.
	answers_on 110 || return 1
	tell load "window after" '{' || return 1
	json_says '.errors == 0 and .requests > 100' <<<"$answer" || return 1
	curl -sf "http://127.0.0.1:$port/stats" | json_says '.errors == 0' || return 1
	# The load ends with 1 if one answer was wrong.
	eval "exec ${in_of[load]}>&-"
	result load 0 || return 1
	curl -sf "http://127.0.0.1:$port/quit" >/dev/null || return 1
	result server 0
}
look_at_server() {
	curl -sf "http://127.0.0.1:$port/stats" >"stats.$1"
}

# track: runtime | node.js | attach | native memory of node and its modules; V8's heap as mmap
@test "node: the machine's, an HTTP server under load" {
	node_under_load "$(command -v node)"
}

# bats test_tags=release
@test "node: the official build, an HTTP server under load" {
	(cd "$root" && scripts/fetch-node) 2>fetch.err || skip "the official build cannot be fetched"
	node_under_load "$root/build/node20/bin/node"
}

# Each stream is opened by one call of deflateInit2_, which makes four or five blocks: those that were kept and
# one for each request.
# track: runtime | node.js | run
# bats test_tags=release
@test "run: node, an HTTP server under load" {
	local kept blocks streams
	node_server "$LIMPET" run -q --on-overload wait -o run.limpet -- "$(command -v node)"
	wait_until 60 has_kept 20
	eval "exec ${in_of[load]}>&-"
	result load 0
	read -r streams kept < <(curl -sf "http://127.0.0.1:$port/stats" | jq -r '"\(.requests + .kept) \(.kept)"')
	curl -sf "http://127.0.0.1:$port/quit" >/dev/null
	result server 0
	trace=run.limpet
	good_capture
	expect '.capture.mode == "run" and .capture.end == "target-exit"'
	blocks=$(site_sum deflateInit2_ allocations)
	((blocks == 4 * streams || blocks == 5 * streams)) ||
		fail "$blocks blocks for $streams streams, of which $kept were kept"
}

# ------------------------------------------------------------------ redis

redis() {
	redis-cli -s "$work/redis.sock" "$@"
}
redis_answers() {
	[[ $(redis ping 2>/dev/null) == PONG ]]
}

# redis_server COMMAND...: that starts it.
redis_server() {
	"$@" --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" --daemonize no --enable-debug-command yes \
		>redis.say 2>redis.err </dev/null 3>&- &
	job_of[redis]=$!
	wait_until 20 redis_answers
}

# populated: 700 values of 5000 bytes, and what stands in front of each.
populated() {
	same "values" "$(jq '[.sites[] | select(any(.stack[]; .function == "debugCommand")) |
		select(.allocated_bytes / .allocations | . >= 5000 and . < 5050) | .allocations] | add' report.json)" 700
}

# track: server | redis (jemalloc as a library) | run
@test "run: redis-server" {
	redis_server "$LIMPET" run -q --on-overload wait -o run.limpet -- redis-server
	redis debug populate 700 value 5000
	redis shutdown nosave || true
	result redis 0
	trace=run.limpet
	good_capture
	expect '.capture.mode == "run" and .capture.end == "target-exit"'
	populated
}

# track: server | redis (jemalloc as a library) | attach | slots
@test "redis-server under redis-benchmark" {
	redis_server redis-server
	pid=${job_of[redis]}
	redis-benchmark -s "$work/redis.sock" -t set,lpush,hset,sadd -n 400000 -r 50000 -d 100 -c 20 -q -l \
		>benchmark.say 2>benchmark.err </dev/null 3>&- &
	job_of[benchmark]=$!
	allocator=$(redis info memory | tr -d '\r' | sed -n 's/^mem_allocator://p')
	attach "$pid"
	redis set known "$(printf 'x%.0s' {1..100000})"
	redis debug populate 700 value 5000
	wait_until 60 recorded "$pid" 50000
	stop "$pid"
	nothing_of_ours "$pid"
	good_capture
	expect '.totals.allocations > 1000'
	populated || fail "allocator $allocator"
	rounds "$pid" "$PROGRAM_CAPTURES"
	run ! ended "${job_of[benchmark]}"
	[[ $(redis strlen known) == 100000 ]]
	redis_answers
	end_process "${job_of[benchmark]}" 5
	redis shutdown nosave || true
	result redis 0
}

# ------------------------------------------------------------------ every way a slot comes to be
: "${LINKS:=storm-full-noplt-pie storm-norelro-plt-nopie}"

@test "RELRO none, partial, full; PLT or not; PIE or not: exact counts each" {
	local link count
	for link in $LINKS; do
		start "$link" "$TARGETS/$link" --threads 2 || return 1
		modules "$pid" >modules.before
		attach "$pid" || fail "$link" || return 1
		tell "$link" "run 2000" ran
		tell "$link" count '{'
		count=$answer
		stop "$pid" || fail "$link" || return 1
		good_capture || fail "$link" || return 1
		same "allocations of $link" "$(jq .totals.allocations report.json)" "$(jq .allocations <<<"$count")"
		same "frees of $link" "$(jq .totals.frees report.json)" "$(jq .frees <<<"$count")"
		same "bytes of $link" "$(jq .totals.live_bytes report.json)" "$(jq .live_bytes <<<"$count")"
		nothing_of_ours "$pid" || fail "$link" || return 1
		modules "$pid" | diff -u modules.before - || fail "$link" || return 1
		finish "$link"
	done
}
