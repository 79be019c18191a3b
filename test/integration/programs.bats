#!/usr/bin/env bats
# Real programs under load: their own results are right, their work goes on, and the report names the
# function that keeps the memory.
# time-limit: 900

load helpers
setup() { begin; }
teardown() { end; }

# has_site FUNCTION: it is in the stack of the site that holds most.
top_site_has() {
	expect 'any(.sites[0].stack[]; .function // "" | test($f))' --arg f "$1"
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
	wait_until 30 elapsed "$pid" 3 || return 1
	stop "$pid" || return 1
	good_capture || return 1
	expect '.capture.truncated_stacks == 0' || return 1
	expect '.totals.allocations > 10000' || return 1
	tell "$name" count '{' || return 1
	bytes=$(jq ".$bytes_key" <<<"$answer")
	kept=$(jq ".kept * .$bytes_key" <<<"$answer")
	expect '.sites[0].live_bytes == $kept and .sites[0].live_allocations == 4000' \
		--argjson kept "$kept" || return 1
	expect '.sites[0].allocated_bytes / .sites[0].allocations == $bytes' --argjson bytes "$bytes" ||
		return 1
	expect 'any(.sites[0].stack[]; (.function | test($f)) and (.file // "" | endswith($file)) and .line > 0)' \
		--arg f "$function" --arg file "$file" || return 1
	nothing_of_ours "$pid" || return 1
	rounds "$pid" 20 || return 1
	tell "$name" hold held || return 1
	finish "$name"
}

@test "C++: maps, strings and exceptions; the leak is named with file and line" {
	leaky leak 'Registry::remember' leak.cc session_bytes "$TARGETS/leak"
}

@test "Rust: collections and panics; the leak is named with file and line" {
	leaky churn 'keep_forever' churn.rs block_bytes "$TARGETS/churn"
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
	wait_until 30 elapsed "$pid" 3 || return 1
	stop "$pid" || return 1
	good_capture || return 1
	expect '.totals.allocations > 1000' || return 1
	expect '.sites[0].live_allocations == 3000' || return 1
	expect '.sites[0].live_bytes >= 3000 * 20000 and .sites[0].live_bytes < 3000 * 20100' || return 1
	top_site_has 'PyByteArray|bytearray' || return 1
	nothing_of_ours "$pid" || return 1
	rounds "$pid" 20 || return 1
	tell "$name" hold held || return 1
	tell "$name" count '{' || return 1
	json_says '.wrong == 0 and .rounds > 100' <<<"$answer" || return 1
	finish "$name"
}

@test "Debian's python3" {
	leaky_python python env
}

@test "Debian's python3, every object by malloc" {
	leaky_python python env PYTHONMALLOC=malloc
}

# ------------------------------------------------------------------ node.js

serving() {
	grep -q '^ready ' "$work/server.say"
}

# node_server NODE: a server and its load. Sets `pid` and `port`.
node_server() {
	LEAK_EVERY=25 "$1" "$root/test/targets/server.js" >server.say 2>server.err </dev/null 3>&- &
	job_of[server]=$!
	wait_until 30 serving || return 1
	read -r _ pid port <server.say
	start load "$1" "$root/test/targets/load.js" "$port" 4
	pid=${job_of[server]}
	tell load "window warm-up" '{'
}

has_kept() {
	(($(curl -sf "http://127.0.0.1:$port/stats" | jq .kept) >= $1))
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
	expect '.totals.allocations > 1000' || return 1
	# The streams that stay were opened by zlib for node: one deflateInit2_ each.
	top_site_has 'deflateInit2_|[zZ]lib' || return 1
	rounds "$pid" 20 || return 1
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

@test "node: the machine's, an HTTP server under load" {
	node_under_load "$(command -v node)"
}

@test "node: the official build, an HTTP server under load" {
	(cd "$root" && scripts/fetch-node) 2>fetch.err || skip "the official build cannot be fetched"
	node_under_load "$root/build/node20/bin/node"
}

# ------------------------------------------------------------------ redis

redis() {
	redis-cli -s "$work/redis.sock" "$@"
}
redis_answers() {
	[[ $(redis ping 2>/dev/null) == PONG ]]
}

@test "redis-server under redis-benchmark" {
	redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" --daemonize no \
		>redis.say 2>redis.err </dev/null 3>&- &
	job_of[redis]=$!
	pid=$!
	wait_until 20 redis_answers
	redis-benchmark -s "$work/redis.sock" -t set,lpush,hset,sadd -n 400000 -r 50000 -d 100 -c 20 -q -l \
		>benchmark.say 2>benchmark.err </dev/null 3>&- &
	job_of[benchmark]=$!
	allocator=$(redis info memory | tr -d '\r' | sed -n 's/^mem_allocator://p')
	attach "$pid"
	redis set known "$(printf 'x%.0s' {1..100000})"
	wait_until 60 elapsed "$pid" 3
	stop "$pid"
	nothing_of_ours "$pid"
	good_capture
	expect '.totals.allocations > 1000'
	top_site_has 'redis|sds|dict|zmalloc|[cC]ommand|ziplist|quicklist|listpack|je_|malloc|read' ||
		fail "allocator $allocator"
	rounds "$pid" 20
	run ! ended "${job_of[benchmark]}"
	[[ $(redis strlen known) == 100000 ]]
	redis_answers
	end_process "${job_of[benchmark]}" 5
	redis shutdown nosave || true
	result redis 0
}

# ------------------------------------------------------------------ every way a slot comes to be

@test "RELRO none, partial, full; PLT or not; PIE or not: exact counts each" {
	local link count
	for link in "$TARGETS"/storm-*; do
		start "${link##*/}" "$link" --threads 2 || return 1
		modules "$pid" >modules.before
		attach "$pid" || fail "$link" || return 1
		tell "${link##*/}" "run 2000" ran
		tell "${link##*/}" count '{'
		count=$answer
		stop "$pid" || fail "$link" || return 1
		good_capture || fail "$link" || return 1
		same "allocations of $link" "$(jq .totals.allocations report.json)" "$(jq .allocations <<<"$count")"
		same "frees of $link" "$(jq .totals.frees report.json)" "$(jq .frees <<<"$count")"
		same "bytes of $link" "$(jq .totals.live_bytes report.json)" "$(jq .live_bytes <<<"$count")"
		nothing_of_ours "$pid" || fail "$link" || return 1
		modules "$pid" | diff -u modules.before - || fail "$link" || return 1
		finish "${link##*/}"
	done
}
