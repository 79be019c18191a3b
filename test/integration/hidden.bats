#!/usr/bin/env bats
# An allocator inside a stripped program: its functions are found by their calls, or nothing is taken for it.
# time-limit: 120

load helpers
setup() {
	begin
	[[ -e /sys/bus/event_source/devices/uprobe/type ]] || skip "this kernel has no uprobes"
}
teardown() { end; }

nameless="mimalloc in nameless"

# asked PATTERN: what attach said.
asked() {
	grep -q "$1" "attach.$captures.err" || fail "not said: $1"$'\n'"$(<"attach.$captures.err")"
}
# The kernel's own page is all that a watch leaves.
mappings() {
	awk '$NF != "[uprobes]" && $NF != "[heap]" { print $1, $2, $NF }' "/proc/$1/maps"
}

# track: allocator | jemalloc, mimalloc or tcmalloc in a stripped program or library that calls it through slots of its own (most programs in Rust) | attach | found by its calls, which `--alloc-functions search` watches for up to two seconds
# bats test_tags=check
@test "four functions without a name are found, and every block is in the trace" {
	start nameless "$TARGETS/nameless"
	text_of "$pid" nameless >text.before
	tell nameless work "done"
	# On a busy machine it may hardly be called while it is watched.
	until attach "$pid" --alloc-functions search; do
		((captures < 10)) && asked "hardly called" || return 1
	done
	asked "looking for the functions of $nameless"
	asked "$nameless: found 4 functions"
	tell nameless rest "done"
	tell nameless "keep 1000" "done"
	tell nameless "zero 100" "done"
	stop "$pid"
	good_capture
	expect '.totals.live_allocations == 1100 and .totals.live_bytes == 1000 * 5000 + 100 * 3000'
	expect '.allocators | map(select(.name == $name)) | .[0].live_allocations == 1100' --arg name "$nameless"
	expect '.unfollowed == null'
	nothing_of_ours "$pid"
	unchanged_text "$pid" nameless
	# It works on as before, and has what it had.
	tell nameless blocks "blocks 1100"
	tell nameless drop "done"
	tell nameless blocks "blocks 0"
	tell nameless work "done"
	tell nameless rest "done"
	tell nameless blocks "blocks 0"
	printf 'quit\n' >&"${in_of[nameless]}"
	exit_status_of "${job_of[nameless]}" 60
	[[ $status == 0 ]] || fail "it ended with $status"
}

# bats test_tags=release
@test "threads that do not run are not watched, however many there are" {
	start nameless "$TARGETS/nameless"
	tell nameless "idle 140" "done"
	tell nameless work "done"
	attach "$pid" --alloc-functions search
	asked "$nameless: found 4 functions"
	tell nameless rest "done"
	stop "$pid"
}

@test "a program at rest shows nothing: refused, with the reason, and untouched" {
	start nameless "$TARGETS/nameless"
	mappings "$pid" >before
	refused 3 "mimalloc.*; its functions were looked for: it was hardly called" "$LIMPET" attach --alloc-functions search -q -o never.limpet "$pid"
	[[ $stderr == *"attach again while the program does more"* ]] || fail "$stderr"
	diff before <(mappings "$pid")
	tell nameless "keep 10" "done"
	tell nameless blocks "blocks 10"
}

@test "without /sys, which tells of uprobes: that is the reason given" {
	unshare --mount true 2>/dev/null || skip "making namespaces is not allowed here"
	start nameless "$TARGETS/nameless"
	refused 3 "its functions were looked for: the kernel's uprobes are not found" \
		unshare --mount bash -c 'mount -t tmpfs none /sys && exec "$@"' - "$LIMPET" attach --alloc-functions search -q -o never.limpet "$pid"
	tell nameless "keep 1" "done"
}

@test "doctor says that attach can look for functions, changes nothing, and watches nothing" {
	start nameless "$TARGETS/nameless"
	run within 30 "$LIMPET" doctor "$pid"
	[[ $status == 3 ]] || fail "doctor ended with $status"
	[[ $output == "limpet cannot attach to 'nameless' ($pid)"* ]] || fail "$output"
	[[ $(tr -s '\n ' ' ' <<<"$output") == *"with --alloc-functions search attach looks for the functions of $nameless"* ]] || fail "$output"
	! grep -q uprobes "/proc/$pid/maps" || fail "the kernel's page is there"
	tell nameless "keep 1" "done"
}

@test "a realloc that is not called while limpet looks: refused, since blocks that it moves would leak" {
	start nameless "$TARGETS/nameless" still
	tell nameless work "done"
	refused 3 "its realloc was not called meanwhile" "$LIMPET" attach --alloc-functions search -q -o never.limpet "$pid"
	tell nameless rest "done"
}

# A watched return would end a program in which an exception or another coroutine passes it.
@test "without --alloc-functions search, or with --follow-fork: no call is watched" {
	start nameless "$TARGETS/nameless"
	mappings "$pid" >before
	tell nameless work "done"
	refused 3 "mimalloc is linked into the executable" "$LIMPET" attach -o never.limpet "$pid"
	[[ $stderr == *"\`limpet attach --alloc-functions search $pid\` looks for its functions"* ]] || fail "$stderr"
	refused 3 "mimalloc is linked into the executable" "$LIMPET" attach --alloc-functions search --follow-fork -o never.limpet "$pid"
	! grep -q uprobes "/proc/$pid/maps" || fail "the kernel's page is there"
	tell nameless rest "done"
}

# limpet watches in a process of its own, and removes breakpoints by several more.
child_of() {
	local child=
	read -r child _ 2>/dev/null <"/proc/$1/task/$1/children" || true
	[[ $child ]] && echo "$child"
}
differs() {
	! cmp -s text.before <(text_of "$pid" nameless) || ended "$watcher"
}
closes() {
	child_of "$(child_of "$watcher")" || ended "$watcher"
}

# stopped_when CONDITION ROUND: limpet is stopped (SIGSTOP) while its watch goes on, and is `watcher`; 1: it was faster,
# and has ended.
stopped_when() {
	"$LIMPET" attach --alloc-functions search -d 100ms -o "killed.$1.$2.limpet" "$pid" >/dev/null 2>killed.err </dev/null 3>&- &
	watcher=$!
	limpet_jobs+=("$watcher")
	wait_until 60 "$1" || return 1
	kill -STOP "$watcher" 2>/dev/null || true
	if ! ended "$watcher" && ! grep -q ': found' killed.err; then
		return
	fi
	# It is past the watch: it captures, and ends by itself.
	kill -CONT "$watcher" 2>/dev/null || true
	wait_until 60 ended "$watcher"
	return 1
}

# Whoever is killed while the kernel takes a breakpoint back may leave it.
# bats test_tags=release
@test "limpet is killed while it watches, and while breakpoints are removed: they go, and the program works on" {
	local round condition
	is_as_before() { cmp -s text.before <(text_of "$pid" nameless); }
	start nameless "$TARGETS/nameless"
	text_of "$pid" nameless >text.before
	tell nameless work "done"
	for condition in differs closes; do
		for ((round = 1; round <= 20; round++)); do
			! stopped_when "$condition" "$round" || break
			wait_until 60 is_as_before
		done
		((round <= 20)) || fail "limpet was always faster"
		kill -KILL "$watcher"
		wait_until 60 ended "$watcher"
		wait_until 60 is_as_before || return 1
	done
	tell nameless rest "done"
	tell nameless blocks "blocks 0"
	nothing_of_ours "$pid"
	tell nameless work "done"
	attach "$pid" --alloc-functions search
	asked "$nameless: found"
	stop "$pid"
	tell nameless rest "done"
	unchanged_text "$pid" nameless
}

@test "functions that the user names come beside those that are found" {
	start nameless "$TARGETS/nameless"
	tell nameless work "done"
	echo 'no_such_function malloc(size)
no_such_free free(p)' >functions
	refused 3 "functions that you named do not exist: no_such_function, no_such_free" \
		"$LIMPET" attach --alloc-functions search -q --alloc-functions functions -o never.limpet "$pid"
	tell nameless rest "done"
}
