#!/usr/bin/env bats
# A program that lists its mappings, and later reads what was listed as readable, finds nothing of limpet's.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# readable PID: what it may read, as /proc says, but for its heap.
readable() {
	grep -E '^[0-9a-f]+-[0-9a-f]+ r' "/proc/$1/maps" | grep -v '\[heap\]'
}

# none_readable NAME COMMAND...: nothing of ours is, while it is captured.
none_readable() {
	local name=$1
	start "$@" || return 1
	readable "$pid" >"$name.before"
	attach "$pid" || return 1
	readable "$pid" >"$name.during"
	grep -q 'memfd:limpet-agent' "/proc/$pid/maps" || fail "$name: no agent" || return 1
	stop "$pid" || return 1
	diff -u "$name.before" "$name.during" || fail "$name: listed as readable" || return 1
	finish "$name"
}

@test "what is listed during a capture can be read after it" {
	local way
	for way in "" map dlopen; do
		start "reader$way" "$TARGETS/reader"
		load=$way attach "$pid"
		tell "reader$way" "work 1000" worked
		tell "reader$way" list listed
		stop "$pid"
		tell "reader$way" read read
		good_capture
		same "blocks" "$(site_sum reader_work allocations)" 1000
		finish "reader$way"
	done
}

# The program would be killed.
@test "no mapping of limpet's is readable at any moment" {
	local way
	for way in "" map; do
		start "reader$way" "$TARGETS/reader"
		tell "reader$way" "work 1" worked
		tell "reader$way" forbid forbidden
		load=$way attach "$pid"
		tell "reader$way" "work 1000" worked
		stop "$pid"
		good_capture
		same "blocks" "$(site_sum reader_work allocations)" 1000
		finish "reader$way"
	done
}

# Not even for who reads it all the same: addresses of blocks would be references to these.
@test "no address of a live block stands in limpet's memory" {
	local options
	for options in "" "--sample 512"; do
		start "reader$options" "$TARGETS/reader"
		# shellcheck disable=SC2086 # several words
		attach "$pid" $options
		tell "reader$options" "keep 20000" kept
		tell "reader$options" search found
		[[ $answer =~ ^'found 0 in '[1-9][0-9]+' MiB'$ ]] || fail "${options:-all}: $answer"
		stop "$pid"
		finish "reader$options"
	done
}

# The module's table comes when limpet has looked.
is_whole() {
	tell loader "allocate 10" allocated && tell loader free freed || return 0
	"$LIMPET" report "$trace" --json >report.json 2>report.err || return
	json_says 'any(.sites[]; (.stack | map(.function)) as $names | any($names[]; . == "plugin_allocate") and
		any($names[]; . == "main") and (.stack_truncated | not))' <report.json
}

# The kernel copies the pages of the unwind tables, which are mapped privately: what limpet writes later is not in
# the copies.
@test "a program locks all of its memory during a capture: stacks in modules that come later are whole" {
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	attach "$pid"
	tell loader lock locked
	tell loader open opened
	wait_until 60 is_whole || fail "$(jq -c '[.sites[] | select(any(.stack[]; .function == "plugin_allocate"))]' report.json)"
	stop "$pid"
	good_capture
	finish loader
}

@test "nothing of limpet's is listed as readable: an allocator inside the program, static programs, musl" {
	none_readable own-allocator "$TARGETS/own-allocator" --threads 1
	none_readable static "$TARGETS/static" --threads 1
	none_readable storm-musl "$TARGETS/storm-musl" --threads 1
}
