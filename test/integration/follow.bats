#!/usr/bin/env bats
# --follow-fork: children of a captured process, each into a trace of its own. What a child does counts from the
# moment that it is told that it is captured.
# time-limit: 400

load helpers
load ../torture/servers
setup() { begin_with_servers; }
teardown() {
	local child
	for child in "${children[@]}"; do
		# Its number may be another's by now.
		[[ $(readlink "/proc/$child/exe") != "$TARGETS"/* ]] || kill -KILL "$child" 2>/dev/null || true
	done
	end_with_servers
}

# clan [OPTION...]: the target, captured with its children.
clan() {
	children=()
	start clan "$TARGETS/clan" || return 1
	parent=$pid
	attach "$parent" --follow-fork "$@"
}

# child COMMAND: told to clan; sets `child`, which is captured.
child() {
	tell clan "$1" forked || return 1
	child=${answer#forked }
	children+=("$child")
	wait_until 30 capturing "$child"
}

# of PID...: `report` is about the trace of that child (grandchild).
of() {
	local pids
	pids=$(printf '.%s' "$@")
	trace=$work/trace.1$pids.limpet
	report || return 1
	expect '.target.pid == $pid and .capture.mode == "attach"' --argjson pid "${*: -1}"
}

# main_thread_has PID NICE POLICY
main_thread_has() {
	[[ $(priorities "/proc/$1/stat") == "$2 $3" ]]
}

has_its_own() {
	"$LIMPET" status "$child" --json | json_says --arg trace "$work/trace.1.$child.limpet" \
		'.captures[0].state == "capturing" and .captures[0].trace == $trace'
}

# bats test_tags=check
@test "a child: its own trace, with its own counts" {
	clan --label "host=a b"
	child fork
	tell clan "$child work 1000" worked
	tell clan "$child keep 7" kept
	tell clan "$child drop" dropped
	tell clan "work 500" worked
	# Also by itself, its capture is one like any other.
	wait_until 60 has_its_own
	stop "$parent"
	good_capture
	same "the parent's" "$(site_sum clan_work allocations)" 500
	same "the child's in the parent" "$(site_sum clan_keep allocations)" 0
	of "$child"
	good_capture
	expect '.capture.end == "stop"'
	same "the child's" "$(site_sum clan_work allocations)" 1000
	same "kept" "$(site_sum clan_keep live_allocations)" 7
	expect '.capture.labels == {"host": "a b"}'
	expect '.totals.foreign_frees == 10 and .totals.live_allocations == 7'
	grep -qx "limpet: child $child: $trace" attach.1.err
	same "traces" "$(find . -name '*.limpet*' | wc -l)" 2
	nothing_of_ours "$parent"
	nothing_of_ours "$child"
	tell clan "$child work 1000" worked
	tell clan "end $child" told
	finish clan
}

# As the workers of nginx are.
# bats test_tags=release
@test "children from before the capture are named, and can be captured one by one" {
	local elder youngest
	children=()
	start clan "$TARGETS/clan"
	parent=$pid
	tell clan fork forked
	elder=${answer#forked }
	tell clan fork forked
	youngest=${answer#forked }
	children=("$elder" "$youngest")
	attach "$parent" --follow-fork
	wait_until 30 grep -q "^hint: .for i in" attach.1.err
	grep -qx "limpet: 2 children were forked before the capture, and are not followed: $elder $youngest" attach.1.err
	grep -qFx "hint: \`for i in $elder $youngest; do limpet attach \$i --background; done\`, with your options, captures them, each into a trace of its own" attach.1.err
	# One that is followed is not named.
	child fork
	wait_until 60 has_its_own
	same "named" "$(grep -c "forked before" attach.1.err)" 1
	tell clan "end $youngest" told
	stop "$parent"
	attach "$parent" --follow-fork --no-seal
	wait_until 30 grep -q "^hint: .for i in" attach.2.err
	grep -q "^limpet: 2 children were forked before the capture" attach.2.err
	stop "$parent"
	attach "$elder"
	tell clan "$elder work 100" worked
	stop "$elder"
	good_capture
	tell clan "end $elder" told
	tell clan "end $child" told
	finish clan
}

@test "grandchildren, and one whose parent has ended" {
	local grandchild orphan
	clan
	child fork
	local middle=$child
	child "$child fork"
	grandchild=$child
	tell clan "$grandchild work 300" worked
	child "$middle orphan"
	orphan=$child
	tell clan "$orphan work 200" worked
	tell clan "$grandchild work 30" worked
	stop "$parent"
	good_capture
	of "$middle"
	good_capture
	expect '.capture.end == "target-exit"'
	of "$middle" "$grandchild"
	same "the grandchild's" "$(site_sum clan_work allocations)" 330
	of "$middle" "$orphan"
	same "the orphan's" "$(site_sum clan_work allocations)" 200
	nothing_of_ours "$grandchild"
	nothing_of_ours "$orphan"
	tell clan "$grandchild work 10" worked
	tell clan "end $grandchild" told
	tell clan "end $orphan" told
	finish clan
}

# make_at_once WORD: fifty children. One that gets no processor for 20 ms, and so is no child that ends at once, may be
# captured.
make_at_once() {
	tell clan "$1 50" made || return 1
	((${answer#made } < 20)) || late=yes
}

@test "children that end or execute a program at once are not disturbed" {
	local try late
	for ((try = 1; try <= 5; try++)); do
		captures=0 late=no
		clan
		make_at_once short
		make_at_once execs
		[[ $late == yes && $try -lt 5 ]] || break
		stop "$parent"
		finish clan
		rm -f ./*.limpet clan.in clan.out
	done
	tell clan "vforks 50" made
	# These live in their parent's memory for a while.
	tell clan "slow 3" made
	tell clan "spawns 50" made
	stop "$parent"
	good_capture
	if [[ $late == no ]]; then
		same "traces" "$(find . -name '*.limpet*' | wc -l)" 1
		run ! grep -E 'warning|child [0-9]' attach.1.err
	fi
	finish clan
}

@test "a child that executes a program, one that is killed, one that ends" {
	clan
	child fork
	local executes=$child
	child fork
	local killed=$child
	child fork
	local ends=$child
	tell clan "$executes work 20" worked
	tell clan "$executes execute" executing
	tell clan "$killed work 40" worked
	kill -KILL "$killed"
	tell clan "end $ends" told
	# Until what happened to each was seen.
	for child in "$executes" "$killed" "$ends"; do
		wait_until 60 eval '! capturing_now "$child"'
	done
	tell clan "work 10" worked
	stop "$parent"
	good_capture
	of "$executes"
	expect '.capture.end == "target-exec" and .capture.complete'
	same "before it" "$(site_sum clan_work allocations)" 20
	of "$killed"
	expect '.capture.end == "target-killed" and .capture.complete'
	same "before it" "$(site_sum clan_work allocations)" 40
	of "$ends"
	expect '.capture.end == "target-exit" and .capture.complete'
	same "until then" "$(site_sum clan_work allocations)" 100
	kill -KILL "$executes"
	finish clan
}

@test "the parent ends first: captures of its children end, and they go on" {
	clan
	child fork
	tell clan "$child work 20" worked
	printf 'leave\n' >&"${in_of[clan]}"
	result clan 0
	attached 0
	report
	expect '.capture.end == "target-exit" and .capture.complete'
	of "$child"
	good_capture
	expect '.capture.end == "stop"'
	same "until then" "$(site_sum clan_work allocations)" 20
	nothing_of_ours "$child"
	kill -0 "$child"
}

@test "limpet stop of a child: the others go on" {
	clan
	child fork
	local stopped=$child
	child fork
	tell clan "$stopped work 20" worked
	within 60 "$LIMPET" stop "$stopped" >stop.say 2>stop.err
	same "its trace" "$(<stop.say)" "$work/trace.1.$stopped.limpet"
	nothing_of_ours "$stopped"
	tell clan "$child work 30" worked
	tell clan "$stopped work 30" worked
	stop "$parent"
	of "$stopped"
	same "the stopped one's" "$(site_sum clan_work allocations)" 20
	of "$child"
	same "the other's" "$(site_sum clan_work allocations)" 30
	tell clan "end $child" told
	tell clan "end $stopped" told
	finish clan
}

@test "Ctrl-C, the end of the time, and --background end all captures" {
	clan
	child fork
	kill -INT "$limpet_job"
	attached 0
	of "$child"
	good_capture
	nothing_of_ours "$child"
	local background seconds=1 number=9
	# As long as it takes to have a child within it.
	while :; do
		background=$(within 60 "$LIMPET" attach "$parent" --follow-fork --background "${patiently[@]}" \
			-d "${seconds}s" -o "$work/trace.$number.limpet" 3>&-)
		same "said" "$background" "$work/trace.$number.limpet"
		tell clan fork forked
		child=${answer#forked }
		children+=("$child")
		wait_until 60 captured_or_over
		tell clan "$child work 5" worked
		! is_captured "$child" || break
		((seconds < 60 * LIMPET_TEST_PATIENCE)) || fail "$seconds seconds were not enough"
		seconds=$((seconds * 3)) number=$((number + 1))
		wait_until 60 is_over "$parent"
	done
	wait_until 60 is_over "$parent"
	trace=$work/trace.$number.$child.limpet
	good_capture
	same "the child's" "$(site_sum clan_work allocations)" 5
	nothing_of_ours "$child"
	for child in "${children[@]}"; do
		tell clan "end $child" told
	done
	finish clan
}
capturing_now() {
	"$LIMPET" status "$1" >/dev/null 2>&1
}
is_over() {
	! capturing_now "$1"
}
captured_or_over() {
	! capturing_now "$parent" ||
		is_captured "$child"
}

@test "limpet is killed: the captures of the children end by themselves, and leave nothing" {
	clan
	child fork
	tell clan "$child work 20" worked
	kill -KILL "$limpet_job"
	wait "$limpet_job" || true
	wait_until 60 eval '! capturing_now "$child"'
	of "$child"
	good_capture
	expect '.capture.end == "stop"'
	nothing_of_ours "$child"
	tell clan "$child work 20" worked
	cleaned_up "$parent"
	tell clan "end $child" told
	finish clan
}

# bats test_tags=release
@test "a limpet of a child is killed: the others go on, and the next one repairs" {
	clan
	child fork
	local collector killed=$child
	# Not its watchdog, which may not have ended yet.
	collector=$(pgrep -o -f -- "--lifeline .* $child\$")
	kill -KILL "$collector"
	tell clan "$child work 20" worked
	child fork
	tell clan "$child work 20" worked
	stop "$parent"
	of "$child"
	good_capture
	cleaned_up "$killed"
	tell clan "end $killed" told
	tell clan "end $child" told
	finish clan
}

@test "whatever stands under a child's name is left, and the next number is taken" {
	clan
	# It does not see the child before there is something under its name.
	stand_still "$limpet_job" "$pid"
	tell clan fork forked
	child=${answer#forked }
	children+=("$child")
	printf 'precious' >"trace.1.$child.limpet"
	kill -CONT "$limpet_job"
	wait_until 30 capturing "$child"
	stop "$parent"
	same "what stood there" "$(<"trace.1.$child.limpet")" precious
	trace=$work/trace.1.$child.limpet.1
	good_capture
	expect '.target.pid == $pid' --argjson pid "$child"
	tell clan "end $child" told
	finish clan
}

# bats test_tags=release
@test "more children than can be captured at a time: the rest is told, and all are clean" {
	local more=4 most
	most=$(sed -n 's/^#define LIMPET_FOLLOWERS_MAX \([0-9]*\)u$/\1/p' "$root/cli/followers.h")
	clan --no-seal
	tell clan "brood $((most + more))" brooded
	mapfile -t children < <(pgrep -P "$parent")
	captured_most() { (($("$LIMPET" status --json | jq '[.captures[] | select(.state == "capturing")] | length') == most + 1)); }
	wait_until 120 captured_most
	stop "$parent"
	same "traces" "$(find . -name '*.limpet' | wc -l)" $((most + 1))
	grep -q "warning: $more children were not captured" attach.1.err
	for child in "${children[@]}"; do
		nothing_of_ours "$child"
	done
	tell clan hatch hatched
	finish clan
}

@test "without --follow-fork children are left alone" {
	start clan "$TARGETS/clan"
	parent=$pid
	children=()
	attach "$parent"
	tell clan fork forked
	child=${answer#forked }
	children+=("$child")
	tell clan "$child work 1000" worked
	stop "$parent"
	good_capture
	same "the child's" "$(site_sum clan_work allocations)" 0
	same "traces" "$(find . -name '*.limpet*' | wc -l)" 1
	nothing_of_ours "$child"
	tell clan "end $child" told
	finish clan
}

@test "limpet run --follow-fork: a server that forks its workers" {
	children=()
	start clan "$LIMPET" run --follow-fork "${patiently[@]}" -o "$work/trace.1.limpet" -- "$TARGETS/clan"
	child fork
	tell clan "$child work 77" worked
	tell clan "end $child" told
	finish clan
	of "$child"
	good_capture
	expect '.capture.end == "target-exit"'
	same "the worker's" "$(site_sum clan_work allocations)" 177
}

# track: server | postgres | attach | `--follow-fork`: each backend has a trace of its own; palloc's contexts show as the malloc calls that they make
# bats test_tags=release
@test "postgres: sessions of the postmaster" {
	local master backend
	children=()
	postgres_server
	master=${job_of[postgres]}
	attach "$master" --follow-fork
	start client python3 "$root/test/targets/client.py" postgres "$directory/.s.PGSQL.5432" 2
	tell client go going
	tell client pid pid
	backend=${answer#pid }
	sql_session
	wait_until 60 capturing "$pid"
	ten_texts
	wait_until 60 capturing "$backend"
	wait_until 30 recorded "$backend" 100
	stop "$master"
	good_capture
	expect '.target.command | test("postgres")'
	of "$pid"
	good_capture
	ten_texts_are_there
	of "$backend"
	good_capture
	expect '.totals.allocations > 0'
	nothing_of_ours "$master"
	nothing_of_ours "$backend"
	tell client hold held
	finish client
	postgres_ends
}
# ten_texts BACKEND: of five million letters each, of which a backend knows only where it makes them.
ten_texts() {
	tell sql "select 'made ' || sum(length(repeat('x', 5000000 + i))) from generate_series(1, 10) i;" "made 50000055"
	sql_session_ends
}
ten_texts_are_there() {
	same "texts" "$(site_sum repeat allocations)" 10 || return 1
	(($(site_sum repeat allocated_bytes) >= 50000055 && $(site_sum repeat allocated_bytes) < 50010000)) ||
		fail "$(site_sum repeat allocated_bytes) bytes of text"
}

# track: server | postgres | run
# bats test_tags=release
@test "run: postgres and a session" {
	local backend their_limpet
	children=()
	((EUID != 0 || $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) == 0)) ||
		skip "Yama lets its user trace no process that is not a child's"
	install -m 755 "$LIMPET" "$directory/limpet-program"
	their_limpet=(env -u LIMPET_RUNTIME_DIR XDG_RUNTIME_DIR="$directory" TMPDIR="$directory" "$directory/limpet-program")
	postgres_server "${their_limpet[@]}" run --follow-fork "${patiently[@]}" -o "$directory/run.limpet" --
	sql_session
	backend=$pid
	wait_until 30 is_captured "$backend" as_postgres "${their_limpet[@]}"
	ten_texts
	wait_until 30 ended "$backend"
	postgres_ends
	trace=$directory/run.limpet
	good_capture
	expect '.capture.mode == "run" and .capture.end == "target-exit"'
	trace=$directory/run.$backend.limpet
	good_capture
	ten_texts_are_there
}
# A pool for each request, and one for each connection.
pools_of_requests() {
	local pools requests
	pools=$(site_sum ngx_create_pool allocations) requests=$(jq .requests <<<"$answer")
	((pools > requests && pools <= 2 * requests)) || fail "$pools pools for $requests requests"
}

# track: server | nginx | run
# bats test_tags=release
@test "run: nginx and a worker" {
	children=()
	nginx_server "$LIMPET" run -q --follow-fork "${patiently[@]}" -o "$work/run.limpet" --
	limpet_job=${job_of[nginx]}
	wait_until 30 capturing_now "$worker"
	start client python3 "$root/test/targets/client.py" http "$directory/nginx.sock" "$directory/files" 2
	tell client go going
	wait_until 20 recorded "$worker" 100
	tell client hold held
	tell client count '{'
	json_says '.errors == 0 and .requests > 0' <<<"$answer" || fail "the client says $answer"
	finish client
	nginx_ends
	trace=$work/run.limpet
	good_capture
	expect '.capture.mode == "run" and .capture.end == "target-exit"'
	trace=$work/run.$worker.limpet
	good_capture
	pools_of_requests
}

# The worker that a reload has made, beside the one that it ends.
another_worker() {
	new=$(pgrep -P "${job_of[nginx]}" | grep -vx "$worker" | head -n 1)
	[[ -n $new ]]
}

# track: server | nginx | attach | `--follow-fork`: each worker has a trace of its own
@test "nginx: workers come and go with each reload" {
	local i new workers=()
	children=()
	nginx_server
	start client python3 "$root/test/targets/client.py" http "$directory/nginx.sock" "$directory/files" 2
	attach "${job_of[nginx]}" --follow-fork
	for ((i = 0; i < 3; i++)); do
		kill -HUP "${job_of[nginx]}"
		wait_until 20 another_worker
		wait_until 20 ended "$worker"
		worker=$new
		workers+=("$worker")
		wait_until 30 capturing "$worker"
		tell client go going
		wait_until 20 recorded "$worker" 100
		tell client hold held
	done
	tell client count '{'
	json_says '.errors == 0 and .requests > 0' <<<"$answer" || fail "the client says $answer"
	finish client
	stop "${job_of[nginx]}"
	good_capture
	nothing_of_ours "${job_of[nginx]}"
	nothing_of_ours "$worker"
	for worker in "${workers[@]}"; do
		of "$worker"
		expect '.capture.complete and .totals.allocations > 0'
	done
	expect '.capture.end == "stop" and .capture.agent_unloaded'
	nginx_ends
}

# It is started by one that has stepped aside, with SCHED_BATCH.
# bats test_tags=release
@test "the limpet of a child has the priority that the user chose" {
	local follower
	may_raise_a_priority || skip "this user may not raise a priority"
	clan
	wait_until 60 main_thread_has "$limpet_job" 0 3
	child fork
	follower=$(ps -o pid= --ppid "$limpet_job" | tr -d ' ')
	[[ $follower =~ ^[0-9]+$ ]] || fail "limpet's children: $follower"
	wait_until 60 main_thread_has "$follower" 0 3
	wait_until 60 piled_up "$follower" "$child" clan "$child work 400000" worked main_thread_has "$follower" -20 0
	wait_until 60 main_thread_has "$follower" 0 3
	stop "$parent"
	good_capture
	tell clan "end $child" told
	finish clan
}
