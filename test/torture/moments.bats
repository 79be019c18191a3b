#!/usr/bin/env bats
# What a program does to itself at any moment of our attach and detach: it executes another program,
# ends, is killed, forks, loses threads. limpet ends in time, with a status and words that fit; what
# goes on is untouched and clean.
# time-limit: 900

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=20}"
: "${MOMENTS:=$(((ROUNDS + 3) / 4))}" # for each act

# A whole capture of nothing takes so long, in microseconds: moments lie between its start and its end.
measure_span() {
	local i started
	span=0
	start measure "$TARGETS/moment" threads || return 1
	for i in 1 2 3; do
		started=${EPOCHREALTIME/./}
		within 60 "$LIMPET" attach -q --no-seal -d 2ms -o measure.limpet "$pid" >/dev/null ||
			return 1
		((span += (${EPOCHREALTIME/./} - started) / 3))
		rm -f measure.limpet
	done
	finish measure
}

# nothing_left: of limpet itself, when it has ended.
nothing_left() {
	local left
	left=$(find "$LIMPET_RUNTIME_DIR" -mindepth 1) || return 1
	[[ -z $left ]] || fail "left in the runtime directory: $left"
}

# capture_at MICROSECONDS: starts limpet on $name, whose act is due so long after; sets `said`, its
# status, and `took`.
capture_at() {
	local started
	tell "$name" "go $1" going || return 1
	trace=$work/$name.limpet
	started=${EPOCHREALTIME/./}
	said=0
	(
		ulimit -c unlimited
		exec timeout $((60 * LIMPET_TEST_PATIENCE)) "$LIMPET" attach -q --no-seal -d 2ms -o "$trace" "$pid"
	) >/dev/null 2>round.err || said=$?
	took=$((${EPOCHREALTIME/./} - started))
	((took > longest)) && longest=$took
	((took < 5000000)) || fail "limpet took $took us: $(<round.err)" || return 1
	seen[$said]=$((${seen[$said]:-0} + 1))
	nothing_left
}

# What limpet may say of a program that ended or became another on the way: captured up to there,
# gone, or (its shell has not collected it yet) a zombie. A trace says how it ended.
ended_well() {
	case $said in
	0 | 4)
		report || return 1
		expect '.capture.end | . == $how or . == "duration"' --arg how "$1"
		;;
	1 | 3)
		[[ ! -e $trace ]] || fail "a trace without a capture" || return 1
		grep -qE "$2" round.err || fail "status $said: $(<round.err)"
		;;
	*) fail "status $said: $(<round.err)" ;;
	esac
}

went_on() {
	((said == 0 || said == 4)) || fail "status $said: $(<round.err)"
}

gone='no process|is gone|just ended|zombie'
other='executed another program|is only starting'

after_exec() {
	heard "$name" second || return 1
	tell "$name" check well || return 1
	nothing_of_ours "$pid" || return 1
	ended_well target-exec "$gone|$other" || return 1
	finish "$name"
}
after_exit() {
	result "$name" 7 || return 1
	ended_well target-exit "$gone"
}
after_kill() {
	result "$name" 137 || return 1
	ended_well target-killed "$gone"
}
after_fork() {
	local child
	heard "$name" child || return 1
	child=${answer#child }
	if ((said == 5)); then
		grep -qw "$child" round.err || fail "not named: $(<round.err)" || return 1
	else
		went_on || return 1
		nothing_of_ours "$child" || return 1
	fi
	# It allocates on: a second look finds it alive.
	! ended "$child" || fail "the child died" || return 1
	nothing_of_ours "$pid" || return 1
	tell "$name" reap reaped || return 1
	finish "$name"
}
after_vfork() {
	heard "$name" forked || return 1
	went_on || return 1
	nothing_of_ours "$pid" || return 1
	finish "$name"
}
after_threads() {
	heard "$name" threads || return 1
	went_on || return 1
	nothing_of_ours "$pid" || return 1
	finish "$name"
}
lost_its_leader() {
	grep -q '^State:[[:space:]]Z' "/proc/$pid/status"
}
after_leader() {
	local task
	wait_until 10 lost_its_leader || return 1
	went_on || return 1
	for task in "/proc/$pid/task/"*; do
		[[ ${task##*/} == "$pid" ]] || nothing_of_ours "${task##*/}" || return 1
	done
	kill -TERM "$pid"
	result "$name" 0
}

# moments ACT AFTER
moments() {
	local act=$1 after=$2 i name longest=0 said took at words=
	local -A seen=()
	measure_span || return 1
	for ((i = 1; i <= MOMENTS; i++)); do
		name=$act$i
		start "$name" "$TARGETS/moment" "$act" || return 1
		at=$(((RANDOM * 32768 + RANDOM) % (span * 6 / 5)))
		capture_at $at || fail "$name, $at us of $span" || return 1
		"$after" || fail "$name, $at us of $span: status $said: $(<round.err)" || return 1
		rm -f "$trace"
		eval "exec ${in_of[$name]}>&- ${out_of[$name]}<&-"
		unset "job_of[$name]"
	done
	for i in "${!seen[@]}"; do
		words+=", status $i: ${seen[$i]}"
	done
	echo "# figures: $act: $MOMENTS moments of $((span / 1000)) ms$words; longest $((longest / 1000)) ms" >&3
}

@test "it executes another program" {
	moments exec after_exec
}

@test "another of its threads executes another program" {
	moments exec-thread after_exec
}

@test "it ends" {
	moments exit after_exit
}

@test "another of its threads ends it" {
	moments exit-thread after_exit
}

@test "it is killed" {
	moments kill after_kill
}

@test "it forks, and the child lives on" {
	moments fork after_fork
}

@test "it vforks" {
	moments vfork after_vfork
}

@test "its threads end, and others begin" {
	moments threads after_threads
}

@test "its main thread ends" {
	moments leader after_leader
}
