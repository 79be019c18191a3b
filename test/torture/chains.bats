#!/usr/bin/env bats
# The stacks that the hooks record during a capture, with their caches on, are those that an independent
# unwinder (libdwfl) finds at the same calls: test/torture/chains.c stops the program at each. CHAINS: stacks that
# are compared in all (100,000 for `make torture`).
# time-limit: 300

load ../integration/helpers
load servers
setup() { begin_with_servers; }
teardown() {
	[[ -z ${chains_job:-} ]] || end_process "$chains_job" 20
	end_with_servers
}

: "${CHAINS:=1440}"
: "${TORTURE:=$root/build/torture}"
programs=9
# Between them a program runs freely, and fills the caches by itself.
bursts=4
burst=$(((CHAINS + programs * bursts - 1) / (programs * bursts)))

# chains NAME PID COUNT [OPTION...]: beside the test, until it traces every thread.
chains() {
	local name=$1 target=$2 count=$3
	shift 3
	timeout --foreground $(((100 + count / 20) * LIMPET_TEST_PATIENCE)) "$TORTURE/chains" --name "$name" --seconds $(((60 + count / 20) * LIMPET_TEST_PATIENCE)) \
		--notes notes "$@" "$target" "$count" >figures 2>chains.err </dev/null 3>&- &
	chains_job=$!
	wait_until 60 tracing
}
tracing() {
	grep -q 'chains: ready' chains.err || ended "$chains_job"
}
# compared STATUS: it has ended so, and left its figures.
compared() {
	exit_status_of "$chains_job" 1200 || return 1
	if [[ $status != "$1" ]]; then
		cat chains.err figures
		fail "chains ended with status $status instead of $1"
		return 1
	fi
}
show_chains() {
	echo "# figures: chains: $(<figures)" >&3
}
# summed: the figures of all bursts; `distinct` counts a stack in each burst that it is met in.
summed() {
	jq -c -s 'reduce .[1:][] as $b (.[0]; reduce ($b | to_entries[]) as {$key, $value} (.; .[$key] |=
		if $key == "name" then . elif $key == "deepest" then [., $value] | max else . + $value end))' every.figures
}
# all_as_recorded NAME PID [OPTION...]: no stack differs. More bursts than `bursts` until the figures are as `wanted`
# says: a stack that is seldom met has to be among them. Ends the capture.
all_as_recorded() {
	local name=$1 target=$2 i enough=0
	shift 2
	for ((i = 1; i <= 20 * bursts && !enough; i++)); do
		chains "$name" "$target" "$burst" "$@" || return 1
		compared 0 || return 1
		cat figures >>every.figures
		cat notes >>every.notes
		((i < bursts)) || ! summed | json_says "${wanted:-true}" || enough=1
	done
	summed >figures || return 1
	show_chains
	stop "$target"
}
# all_in_trace: each stack that was compared. The program is at rest, or has ended: it need not run beside that.
all_in_trace() {
	good_capture || return 1
	"$TORTURE/chains" --trace "$trace" --notes every.notes >noted || fail "not in the trace: $(<noted)"
}

@test "every shape of frame" {
	start shapes "$TARGETS/shapes"
	tell shapes go going
	attach "$pid"
	wanted='.cut > 0 and .deepest == 256' all_as_recorded shapes "$pid"
	tell shapes hold held
	all_in_trace
	# Deep stacks are cut; of code without a description the other one does not see the callers. A thread whose first
	# call comes from a handler on another stack is cut where that ends, until the collector has found its own.
	json_says '.cut > 0 and .short <= .stacks / 20 and .deepest == 256 and .whole > .stacks * 0.7' <figures
	expect ".capture.truncated_stacks >= $(jq '.cut + .short' figures)"
	finish shapes
}

# churning NAME COMMAND...: a program of ours, whose stacks are described to the root.
churning() {
	local name=$1
	start "$@" || return 1
	tell "$name" go going || return 1
	attach "$pid" || return 1
	all_as_recorded "$name" "$pid" || return 1
	tell "$name" hold held || return 1
	all_in_trace || return 1
	json_says '.whole == .stacks' <figures || return 1
	finish "$name"
}

@test "C++: maps, strings and exceptions" {
	churning leak "$TARGETS/leak"
}

@test "Rust: collections and panics" {
	churning churn "$TARGETS/churn"
}

# bats test_tags=release
@test "Rust, linked by LLD" {
	readelf -p .comment "$TARGETS/churn-lld" | grep -q LLD
	churning churn-lld "$TARGETS/churn-lld"
}

# bats test_tags=release
@test "Nim: tables and exceptions" {
	churning churn-nim "$TARGETS/churn-nim"
}

@test "python3 with threads" {
	churning python env PYTHONMALLOC=malloc /usr/bin/python3 "$root/test/targets/pyload.py"
}

# V8's builtins and the code that it makes are not described: both sides go by frame pointer there.
@test "node under HTTP load" {
	node_server
	start load node "$root/test/targets/load.js" "$port" 2
	pid=${job_of[server]}
	attach "$pid"
	all_as_recorded node "$pid"
	right_window load chains
	eval "exec ${in_of[load]}>&-"
	result load 0
	# The trace has places of scripts where the stack has the interpreter's: javascript.bats compares these.
	good_capture
	json_says '.short == 0' <figures
	curl -sf "http://127.0.0.1:$port/quit" >/dev/null
	result server 0
}

# right_answers: of the client's, to its end.
right_answers() {
	tell client count '{' || return 1
	json_says '.errors == 0 and .requests > 0' <<<"$answer" || fail "the client says $answer" || return 1
	finish client
}

# bats test_tags=release
@test "redis-server" {
	redis_server
	start client python3 "$root/test/targets/client.py" redis "$work/redis.sock" 4
	tell client go going
	pid=${job_of[redis]}
	attach "$pid"
	all_as_recorded redis "$pid"
	tell client hold held
	all_in_trace
	json_says '.whole == .stacks' <figures
	right_answers
	redis_ends
}

# bats test_tags=release
@test "postgres: a backend" {
	postgres_server
	start client python3 "$root/test/targets/client.py" postgres "$directory/.s.PGSQL.5432" 2
	tell client go going
	tell client pid pid
	pid=${answer#pid }
	attach "$pid"
	all_as_recorded postgres "$pid"
	tell client hold held
	all_in_trace
	json_says '.whole == .stacks' <figures
	right_answers
	postgres_ends
}

# Until its table is there, a module's frames are passed as code without a description.
soon_right() {
	timeout --foreground $((60 * LIMPET_TEST_PATIENCE)) "$TORTURE/chains" --name replacer \
		--seconds $((60 * LIMPET_TEST_PATIENCE)) "$pid" 100 >figures 2>chains.err &&
		json_says '.whole == .stacks' <figures
}

@test "a module takes the place of another: its own table is used" {
	local module
	start replacer "$TARGETS/replacer" "$TARGETS/frame-40.so" "$TARGETS/frame-360.so"
	attach "$pid"
	for module in 0 1 0 1; do
		tell replacer "use $module" used
		wait_until 20 soon_right || {
			echo "module $module"
			cat chains.err figures
			false
		}
	done
	stop "$pid"
	good_capture
	finish replacer
}

# ------------------------------------------------------------------ negative controls
#
# The same test finds what is wrong, when something is.

# spoilt WHAT: the window begins before the program works, so that nothing is known yet.
spoilt() {
	local what=$1
	start shapes "$TARGETS/shapes" || return 1
	attach "$pid" || return 1
	chains "spoilt-$what" "$pid" 1200 --spoil "$what" --collector "$limpet_job" || return 1
	tell shapes go going || return 1
	compared 3 || return 1
	show_chains
	json_says '.spoiled > 0 and .differs > 0' <figures || return 1
	grep -q 'the other' chains.err || return 1
	tell shapes hold held || return 1
	stop "$pid" || return 1
	finish shapes
}

@test "memos that have gone stale are found out" {
	spoilt memos
}

@test "fingerprints that lead to another stack are found out" {
	spoilt prints
}

@test "unwind tables that are corrupt are found out" {
	spoilt tables
}
