#!/usr/bin/env bats
# limpet dies. KILL_STRIDE and KILL_REPEAT: at which of its steps, and how often at each (every
# thirteenth once for `make test`, every one twenty times for `make torture`). KILL_ROUNDS: collectors
# that are killed under full load. STOP_ROUNDS: moments at which it is stopped.
# time-limit: 300

load ../integration/helpers
load moments
setup() { begin; }
teardown() { end; }

: "${KILL_STRIDE:=37}"
: "${KILL_REPEAT:=1}"
: "${KILL_ROUNDS:=12}"
: "${TORTURE:=$root/build/torture}"

figures() {
	echo "# figures:   $*" >&3
}

# killed_at_steps NAME PID [OPTION...]
killed_at_steps() {
	local name=$1 pid=$2
	"$TORTURE/killstep" --repeat "$KILL_REPEAT" --stride "$KILL_STRIDE" "${@:3}" "$pid" \
		>steps.json 2>steps.err || fail "$(tail -n 20 steps.err)" || return 1
	json_says '.kills > 0 and .repaired > 0 and .bad == 0' <steps.json || fail "$(<steps.json)" || return 1
	figures "$(jq -r --arg name "$name" '"\($name): SIGKILL at \(.kills) of \(.steps) steps x repeats: " +
		"\(.repaired) times something was left, and removed; \(.bad) bad"' <steps.json)"
	nothing_of_ours "$pid"
}

@test "limpet is killed at every step: threads that allocate go on, and the next attach repairs" {
	start storm "$TARGETS/storm" --threads 4 --churn 5000 --cross --rate 100000
	tell storm go going
	killed_at_steps storm "$pid"
	tell storm hold held
	tell storm "run 2000" ran
	finish storm
}

# Its code has to be as it was, too: the first functions of an allocator are hooked where they begin.
@test "limpet is killed at every step: an allocator inside the program" {
	start storm "$TARGETS/own-allocator" --threads 4 --cross --rate 100000
	text_of "$pid" own-allocator >text.before
	tell storm go going
	killed_at_steps "an allocator inside" "$pid"
	unchanged_text "$pid" own-allocator
	tell storm hold held
	tell storm "run 2000" ran
	finish storm
}

# The agent is mapped, and unmapped, by the stub; slots and entries are written from outside.
# bats test_tags=release
@test "limpet is killed at every step: no dynamic linker, or one of another kind" {
	local kind
	for kind in static storm-musl storm-musl-static; do
		start "$kind" "$TARGETS/$kind" --threads 4 --cross --rate 100000
		text_of "$pid" "$kind" >text.before
		tell "$kind" go going
		killed_at_steps "$kind" "$pid" || return 1
		unchanged_text "$pid" "$kind" || return 1
		tell "$kind" hold held
		tell "$kind" "run 2000" ran
		finish "$kind" || return 1
	done
}

# Where its functions are is what libc says: while limpet is there, at the agent's.
# bats test_tags=release
@test "limpet is killed at every step: what the linker binds is the program's own again" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/comer"
		killed_at_steps "symbols, by $load" "$pid" ${load:+--load "$load"} || return 1
		tell "by-$load" answers answered
		tell "by-$load" "lazy $TARGETS/early-lazy.so" opened
		tell "by-$load" "more 10" more
		tell "by-$load" close closed
		finish "by-$load" || return 1
	done
}

# With copies of its release in the midst of functions, and blocks that come by mmap.
# bats test_tags=release
@test "limpet is killed at every step: Nim's own allocator" {
	start nim "$TARGETS/nim-orc-release-on"
	text_of "$pid" nim-orc-release-on >text.before
	tell nim go going
	killed_at_steps "Nim" "$pid"
	unchanged_text "$pid" nim-orc-release-on
	tell nim hold held
	tell nim "run 100" ran
	finish nim
}

# bats test_tags=release
@test "limpet is killed at every step: by dlopen, and where all threads stand" {
	local load
	start storm "$TARGETS/storm" --threads 4 --churn 5000 --cross --rate 100000
	tell storm go going
	for load in dlopen map; do
		killed_at_steps "by $load" "$pid" --load "$load"
	done
	tell storm hold held
	tell storm "run 2000" ran
	finish storm
}

@test "limpet is killed at every step: one thread that sleeps in a system call" {
	start storm "$TARGETS/storm" --threads 1
	killed_at_steps "one thread" "$pid"
	tell storm "run 2000" ran
	finish storm
}

# All that a thread has is looked at while limpets die on it: its prepared signal frame brings it home.
killed_registers() {
	local mode=$1 KILL_REPEAT=$(((KILL_REPEAT + 4) / 5))
	start "$mode" nice "$TARGETS/registers" "$mode" || return 1
	tell "$mode" interrupted noted || return 1
	killed_at_steps "registers, $mode" "$pid" || return 1
	tell "$mode" check fine || return 1
	finish "$mode"
}

# bats test_tags=release
@test "limpet is killed at every step: all registers of threads that never sleep" {
	killed_registers spin
}

@test "limpet is killed at every step: all registers of threads that sleep in system calls" {
	killed_registers block
}

# bats test_tags=release
@test "limpet is killed at every step: all registers of a single thread" {
	killed_registers main
}

# SIGKILL at one of its calls, wherever that is: in preflight, in the remote calls, while slots are exchanged, while
# it captures at full load, while it leaves.
# bats test_tags=release
@test "limpet is killed at any moment under full load; the next one repairs" {
	local i ptraces calls at killed=0 dormant=0
	start storm nice -n 10 "$TARGETS/storm" --threads 8 --churn 20000 --cross --signals
	measure_span "$pid"
	tell storm go going
	for ((i = 1; i <= KILL_ROUNDS; i++)); do
		moment_of "$i" "$KILL_ROUNDS"
		status=0
		MEDDLE_KILL=$at meddled attach -q --no-seal --attach-timeout 10m -d 20ms -o "killed.$i.limpet" "$pid" \
			>/dev/null 2>round.err || status=$?
		case $status in
		137) killed=$((killed + 1)) ;;
		0 | 4) ;;
		*) fail "round $i: status $status: $(<round.err)" || return 1 ;;
		esac
		rm -f killed.*
		! ended "$pid" || fail "the target died in round $i" || return 1
		! "$LIMPET" status "$pid" >/dev/null 2>&1 || dormant=$((dormant + 1))
		if ((i % 4 == 0)); then
			cleaned_up "$pid" 01 || fail "after round $i, killed at call $at" || return 1
		elif ((i % 4 == 2)); then
			within 60 "$LIMPET" attach -q --no-seal --attach-timeout 10m -d 5ms -o whole.limpet "$pid" >/dev/null \
				2>round.err || (($? == 4)) ||
				fail "round $i: no attach after a kill: $(<round.err)" || return 1
			rm -f whole.limpet
			nothing_of_ours "$pid" || fail "after round $i" || return 1
		fi
	done
	figures "$KILL_ROUNDS rounds, $killed SIGKILLs: $dormant left something, all of it was removed"
	# The last sixth of the moments lies beyond an ordinary capture.
	((killed * 2 >= KILL_ROUNDS && dormant > 0)) || fail "only $killed were killed, $dormant left something"
	cleaned_up "$pid" 01
	tell storm hold held
	tell storm "run 2000" ran
	finish storm
}

: "${STOP_ROUNDS:=8}"

# It has ended; one that stands and holds nobody is let go on.
has_ended() {
	ended "$limpet_job" && return
	if stands_still "$limpet_job" && ! holds_one "$limpet_job" "$1"; then
		kill -CONT "$limpet_job"
	fi
	return 1
}

# SIGSTOP at one of its calls of ptrace, between most of which a thread is held: it is woken. Every second time it is
# stopped again at each call from there on, and so has to be ended.
# bats test_tags=release
@test "limpet is stopped at any moment: no thread of the target stands for it" {
	local i ptraces calls at way woken=0 killed=0
	start storm nice -n 10 "$TARGETS/storm" --threads 4 --churn 5000 --cross
	measure_span "$pid"
	for ((i = 1; i <= STOP_ROUNDS; i++)); do
		at=p$((1 + (ptraces * (i - 1) + RANDOM * ptraces / 32768) / STOP_ROUNDS))
		way=stop
		((i % 2)) || way=hold
		MEDDLE_STOP=$at:$way LD_PRELOAD=$TARGETS/meddle.so "$LIMPET" attach -q --no-seal "${patiently[@]}" -d 2ms \
			-o "stopped.$i.limpet" "$pid" >/dev/null 2>round.err 3>&- &
		limpet_job=$!
		limpet_jobs+=("$limpet_job")
		wait_until 60 has_ended "$pid" || fail "round $i, stopped at call $at" || return 1
		exit_status_of "$limpet_job" 1
		case $status in
		0 | 4) woken=$((woken + 1)) ;;
		137) killed=$((killed + 1)) ;;
		*) fail "round $i: status $status: $(<round.err)" || return 1 ;;
		esac
		[[ $status != 137 || $way == hold ]] || fail "round $i, stopped once at call $at: ended" || return 1
		rm -f stopped.*
		tell storm "run 100" ran || fail "round $i, stopped at call $at" || return 1
		cleaned_up "$pid" 01 || fail "round $i, stopped at call $at" || return 1
		within 60 "$LIMPET" attach -q --no-seal "${patiently[@]}" -d 2ms -o whole.limpet "$pid" >/dev/null 2>round.err ||
			fail "round $i: no attach after it: $(<round.err)" || return 1
		rm -f whole.limpet
	done
	figures "$STOP_ROUNDS moments: $woken times it went on, $killed times it was ended"
	((woken && killed)) || fail "$woken went on, $killed were ended"
	finish storm
}

operations() {
	tell storm count '{' && jq .operations <<<"$answer"
}

# With the default nobody waits for a collector that stands still.
# bats test_tags=release
@test "the collector is stopped by SIGSTOP under full load, and goes on" {
	local before after
	start storm nice -n 10 "$TARGETS/storm" --threads 4 --cross
	tell storm go going
	overload=drop attach "$pid" --no-seal --memory 8MiB
	more_operations() { after=$(operations) && ((after > before + $1)); }
	before=$(operations)
	wait_until 120 more_operations 10000
	stand_still "$limpet_job" "$pid"
	before=$(operations)
	# More than the agent's memory holds.
	wait_until 120 more_operations 1500000
	kill -CONT "$limpet_job"
	stop "$pid" 4
	report
	expect '.capture.dropped_events > 0 and (.capture.complete | not) and .capture.agent_unloaded'
	nothing_of_ours "$pid"
	tell storm hold held
	tell storm "run 2000" ran
	finish storm
	figures "SIGSTOP: $((after - before)) operations went by meanwhile"
}

: "${LOADER_ROUNDS:=6}"

# A program that does nothing but load and unload: a safe point is rare, and the agent may have to stay.
@test "modules come and go all the while: attached or given up, detached or dormant, never harmed" {
	local i status gave_up=0 dormant=0 good=0
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	printf 'storm %d\n' $((LOADER_ROUNDS * 2000)) >&"${in_of[loader]}"
	# And until it was captured at least once: in the end it rests.
	for ((i = 1; i <= LOADER_ROUNDS || good == 0; i++)); do
		status=0
		within 60 "$LIMPET" attach -q --no-seal -d "$((i % 40 + 1))ms" -o round.limpet "$pid" \
			>/dev/null 2>round.err || status=$?
		case $status in
		0 | 4) good=$((good + 1)) ;;
		1) gave_up=$((gave_up + 1)) ;;
		5) dormant=$((dormant + 1)) ;;
		*) fail "round $i: status $status: $(<round.err)" || return 1 ;;
		esac
		rm -f round.limpet
	done
	figures "a loader that never rests: $good captures, $gave_up gave up, $dormant left the agent dormant"
	heard loader stormed
	cleaned_up "$pid" 01
	finish loader
}
