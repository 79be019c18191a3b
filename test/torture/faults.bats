#!/usr/bin/env bats
# Each system call that limpet makes to attach and to leave fails, one a run. FAULTS: how many of those that were
# seen are tried for each way in, the same ones for the same limpet; all: all of them, with each error (`make
# torture`).
# time-limit: 300

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${FAULTS:=6}"
: "${TORTURE:=$root/build/torture}"

figures() {
	echo "# figures:   $*" >&3
}

# faulty WORD...: limpet, under faults(1), with a short capture of $pid from beginning to end.
faulty() {
	rm -f fault.limpet*
	exit_status=0
	local timeout=3s
	# Without a fault it has to get in, however busy the machine is.
	[[ $1 != list ]] || timeout=60s
	LIMPET_LOAD=${load-} within 120 "$TORTURE/faults" "$@" "$LIMPET" attach -q --no-seal -d 50ms --attach-timeout $timeout -o fault.limpet \
		"$pid" >fault.say 2>fault.err || exit_status=$?
}

# after_fault NAME: limpet has ended in time, with a status and words of its own; the program works, and nothing is
# left that the next limpet does not remove.
after_fault() {
	case $exit_status in
	0 | 4) ;;
	1 | 3 | 5) grep -q '^limpet: ' fault.err || fail "status $exit_status without a word" || return 1 ;;
	*) fail "limpet attach ended with status $exit_status: $(<fault.err)" || return 1 ;;
	esac
	tell "$1" "run 20" ran || return 1
	cleaned_up "$pid" 01 || return 1
	find "/proc/$pid/fd" -mindepth 1 -printf '%f %l\n' | sort | diff fds.before - || fail "other descriptors" || return 1
	! grep -q $'^State:\t[Tt]' "/proc/$pid/task/"*/status || fail "it is stopped"
}

# fails_everywhere LOAD PROGRAM..., by the usual way if LOAD is empty; `each`: a call that is tried at each place, if only one error at each.
fails_everywhere() {
	local load=$1 name="by-$1-${2##*/}" each=${each-} hits=0 tried=0 call place error
	start "$name" "${@:2}"
	tell "$name" "run 20" ran
	find "/proc/$pid/fd" -mindepth 1 -printf '%f %l\n' | sort >fds.before
	faulty list places
	((exit_status == 0)) || fail "without a fault: status $exit_status: $(<fault.err)" || return 1
	after_fault "$name" || return 1
	sort -o places places
	(($(wc -l <places) > 300)) || fail "only $(wc -l <places) of them were seen" || return 1
	if [[ $FAULTS != all ]]; then
		shuf --random-source=<(yes "$name") places >shuffled
		shuf -n "$FAULTS" --random-source=<(yes "$name") <(awk '!seen[$1]++' shuffled) >places
		# Where the program is held, at each place.
		[[ -z $each ]] || awk -v each="$each" '$1 == each && !seen[$2]++' shuffled >>places
	fi
	while read -r call place error; do
		faulty at "$call" "$place" "$error" hit
		after_fault "$name" || fail "$call at $place: $error" || return 1
		tried=$((tried + 1))
		[[ ! -s hit ]] || hits=$((hits + 1))
	done <places
	figures "$name: $hits of $tried calls failed"
	# Some are made at times only.
	((2 * hits > tried)) || fail "only $hits of $tried were made again" || return 1
	counted_phase "$name" 2000 || return 1
	finish "$name"
}

# bats test_tags=release
@test "any system call of limpet's fails: it ends in time and says so, the program works, nothing is left" {
	each=ptrace fails_everywhere "" "$TARGETS/storm" --threads 2 --cross
}

# bats test_tags=release
@test "any system call of limpet's fails: it ends in time and says so, the program works, nothing is left: dlopen" {
	fails_everywhere dlopen "$TARGETS/storm" --threads 2 --cross
}

@test "any system call of limpet's fails: it ends in time and says so, the program works, nothing is left: map" {
	fails_everywhere map "$TARGETS/storm" --threads 2 --cross
}

# bats test_tags=release
@test "any system call of limpet's fails: it ends in time and says so, the program works, nothing is left: entries" {
	fails_everywhere map "$TARGETS/own-allocator" --threads 2 --cross
}

# A slot that cannot be written leaves calls unseen, or the agent where it is. All that limpet writes to /proc/PID/mem and
# to files by their offset is tried: which of it are slots is not known here.
# bats test_tags=release
@test "a write fails while slots are put in from outside: a trace that says that it is complete is" {
	local load=map real=$LIMPET place exit_status incomplete=0
	start storm "$TARGETS/storm" --threads 2 --cross
	faulty list places
	((exit_status == 0)) || fail "without a fault: status $exit_status: $(<fault.err)" || return 1
	while read -r place; do
		printf '#!/bin/sh\n[ "$1" = attach ] || exec "%s" "$@"\nexec "%s/faults" at pwrite64 %s EIO hit "%s" "$@"\n' "$real" "$TORTURE" "$place" "$real" >faulty
		chmod +x faulty
		LIMPET=$work/faulty attach "$pid" 2>/dev/null || continue
		tell storm mark marked
		tell storm zero zeroed
		tell storm "run 200" ran
		tell storm count '{'
		within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || true
		exit_status_of "$limpet_job" 60
		case $status in
		0)
			report || return 1
			counts_equal || fail "$place: $(<"attach.$captures.err")" || return 1
			;;
		4) incomplete=$((incomplete + 1)) ;;
		*) grep -q '^limpet: ' "attach.$captures.err" || fail "status $status without a word" || return 1 ;;
		esac
		cleaned_up "$pid" 01
	done < <(awk '$1 == "pwrite64" { print $2 }' places | sort -u)
	((incomplete)) || fail "each of them was complete"
	finish storm
}

# Calls that a thread of the program makes for us: number, and the argument by which they are told from those that the
# filter was asked about before, and its value there. Every third is by dlopen: those that only dlopen makes are.
there=("memfd_create 319 0 4154458112" "close 3 0 900" "mmap 9 1 65536" "munmap 11 1 65536" "openat 257 1 4154458112"
	"clone 56 1 4154458112" "mprotect 10 0 4154458112" "pread64 17 0 900" "madvise 28 0 4154458112"
	"memfd_create 319 0 4154458112" "newfstatat 262 0 900")

# A filter is not taken off again: what the program does not let us take back stays, switched off.
# bats test_tags=release
@test "any system call that a thread of the program makes for limpet fails: it says so, the program works" {
	local index errors=12 ways=("" dlopen map) way
	[[ $FAULTS != all ]] || errors="12 1"
	for ((index = 0; index < ${#there[@]}; index++)); do
		for way in 0 1 2; do
			# Each by one way, in turn.
			[[ $FAULTS == all ]] || ((index % 3 == way)) || continue
			# shellcheck disable=SC2086 # several words
			fails_there "${ways[way]}" ${there[index]} $errors || return 1
		done
	done
}

# fails_there LOAD CALL NUMBER ARGUMENT VALUE ERRNO...: at the attach, and at the end of a capture.
fails_there() {
	local load=$1 call=$2 rule="fail $3 $4 $5" error key exit_status
	for error in "${@:6}"; do
		key=by-$load-$call-$error
		start "$key" "$TARGETS/shut" || return 1
		tell "$key" "work 10" worked || return 1
		tell "$key" "$rule $error" failing || return 1
		exit_status=0
		LIMPET_LOAD=${load-} within 60 "$LIMPET" attach -q --no-seal -d 10ms --attach-timeout 3s -o "$key.limpet" "$pid" \
			>fault.say 2>fault.err || exit_status=$?
		ended_well "$key" || return 1
		start "$key-end" "$TARGETS/shut" || return 1
		attach "$pid" --no-seal --attach-timeout 3s || return 1
		tell "$key-end" "$rule $error" failing || return 1
		tell "$key-end" "work 10" worked || return 1
		within 60 "$LIMPET" stop -q "$pid" >fault.say 2>fault.err || true
		exit_status_of "$limpet_job" 60 || return 1
		exit_status=$status
		cat "attach.$captures.err" >>fault.err
		ended_well "$key-end" || return 1
	done
}
ended_well() {
	case $exit_status in
	0 | 4) nothing_of_ours "$pid" || fail "$1" || return 1 ;;
	1 | 3 | 5) grep -q '^limpet: ' fault.err || fail "$1: status $exit_status without a word" || return 1 ;;
	*) fail "$1: status $exit_status: $(<fault.err)" || return 1 ;;
	esac
	tell "$1" "work 1000" worked || return 1
	grep -q '^TracerPid:[[:space:]]0$' "/proc/$pid/status" || fail "$1: still traced" || return 1
	finish "$1"
}
