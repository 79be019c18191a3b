#!/usr/bin/env bats
# What a program does to itself at any moment of our attach and detach: it executes another program,
# ends, is killed, forks, loses threads. limpet ends, with a status and words that fit; what goes on is
# untouched and clean. A moment is a number of calls that limpet has made by then.
# time-limit: 900

load ../integration/helpers
load moments
setup() { begin; }
teardown() { end; }

: "${MOMENTS:=3}" # for each act

# nothing_left: of limpet itself, when it has ended.
nothing_left() {
	local left
	left=$(find "$LIMPET_RUNTIME_DIR" -mindepth 1) || return 1
	[[ -z $left ]] || fail "left in the runtime directory: $left"
}

# capture_at MOMENT: runs limpet on $name, which acts at that call of limpet's, while limpet goes on; sets `said`,
# its status, and counts its calls. Only what waits for its deadline, and so in vain, meets the limit of `meddled`.
capture_at() {
	local count
	trace=$work/$name.limpet
	said=0
	(
		ulimit -c unlimited
		MEDDLE_AT="$1:act:$work/$name.in" meddled attach -q --no-seal --attach-timeout 1h -d 2ms -o "$trace" "$pid"
	) >/dev/null 2>round.err || said=$?
	seen[$said]=$((${seen[$said]:-0} + 1))
	read -r _ count <made
	((count <= most)) || most=$count
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
# limpet has none there.
after_close() {
	heard "$name" closed || return 1
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
	local act=$1 after=$2 i name ptraces calls most=0 said at words=
	local -A seen=()
	start measure "$TARGETS/moment" threads || return 1
	measure_span "$pid" || return 1
	finish measure || return 1
	for ((i = 1; i <= MOMENTS; i++)); do
		name=$act$i
		start "$name" "$TARGETS/moment" "$act" || return 1
		moment_of "$i" "$MOMENTS"
		rm -f made
		capture_at "$at" || fail "$name, at call $at of $ptraces and $calls" || return 1
		"$after" || fail "$name, at call $at of $ptraces and $calls: status $said: $(<round.err)" || return 1
		rm -f "$trace"
		eval "exec ${in_of[$name]}>&- ${out_of[$name]}<&-"
		unset "job_of[$name]"
	done
	for i in "${!seen[@]}"; do
		words+=", status $i: ${seen[$i]}"
	done
	echo "# figures: $act: $MOMENTS moments of $calls calls$words; at most $most calls" >&3
}

# bats test_tags=release
@test "it executes another program" {
	moments exec after_exec
}

# bats test_tags=release
@test "another of its threads executes another program" {
	moments exec-thread after_exec
}

@test "it ends" {
	moments exit after_exit
}

# bats test_tags=release
@test "another of its threads ends it" {
	moments exit-thread after_exit
}

# bats test_tags=release
@test "it is killed" {
	moments kill after_kill
}

# bats test_tags=release
@test "it forks, and the child lives on" {
	moments fork after_fork
}

# bats test_tags=release
@test "it vforks" {
	moments vfork after_vfork
}

# bats test_tags=release
@test "it closes every descriptor" {
	moments close after_close
}

# bats test_tags=release
@test "its threads end, and others begin" {
	moments threads after_threads
}

# bats test_tags=release
@test "its main thread ends" {
	moments leader after_leader
}
