#!/usr/bin/env bats
# Addresses of hooks that the program keeps: nothing that it calls later may be gone.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# kept_in WAY STATUS: it keeps an address during a capture, which ends with this status.
kept_in() {
	start "$1" "$TARGETS/hoard" || return 1
	attach "$pid" || return 1
	tell "$1" "keep $1" kept || return 1
	stop "$pid" "$2" || fail "$1"
}

# only_jumps PID: of all that limpet has put there.
only_jumps() {
	local left
	left=$(awk '/memfd:/ { print $2, $3, $6 }' "/proc/$1/maps")
	[[ $left == $'--xp 00100000 /memfd:limpet-agent\n-w-p 00101000 /memfd:limpet-agent' ]] ||
		fail "it maps: $left" || return 1
	left=$(find "/proc/$1/fd" -lname '*memfd:*' -printf '%f -> %l\n')
	[[ -z $left ]] || fail "still open: $left" || return 1
	! "$LIMPET" status "$1" >status.say 2>&1 || fail "limpet status: $(<status.say)"
}

# stays WAY: where nothing is put back. What is kept can be called, after another capture, too.
stays() {
	kept_in "$1" 5 || return 1
	grep -q 'stores addresses of the agent.* plain jumps' "$work/attach.$captures.err" || fail "$1" || return 1
	grep -q 'stores addresses of the agent.* plain jumps' "$work/stop.err" || fail "$1" || return 1
	only_jumps "$pid" || fail "$1" || return 1
	tell "$1" "use $1" used || fail "$1" || return 1
	attach "$pid" || return 1
	tell "$1" "use $1" used || fail "$1" || return 1
	stop "$pid" || fail "$1" || return 1
	only_jumps "$pid" || fail "$1" || return 1
	tell "$1" "use $1" used || fail "$1" || return 1
	finish "$1"
}

@test "an address of a hook in a packed structure" {
	stays packed
}

@test "an address of a hook in a page that was closed since, of its own, of a file, or shared" {
	local way
	for way in closed file shared none none-file none-shared; do
		stays "$way" || return 1
	done
}

@test "an address of a hook in memory that nobody else may read (memfd_secret)" {
	start secret "$TARGETS/hoard"
	attach "$pid"
	if ! tell secret "keep secret" kept; then
		skip "this kernel does not let it: memfd_secret"
	fi
	stop "$pid" 5
	only_jumps "$pid"
	tell secret "use secret" used
	finish secret
}

@test "an address of a hook in generated code, as a number or as a distance" {
	stays code
	stays distance
}

@test "an address of a hook that glibc keeps mangled: for the exit, in a jmp_buf" {
	stays exit
	stays jump
}

@test "an address of a hook that a thread calls all the while, out of a register: at no moment is nothing there" {
	start hoard "$TARGETS/hoard"
	attach "$pid"
	tell hoard "keep packed" kept
	tell hoard "spin packed" spinning
	tell hoard "calls 1000" called
	stop "$pid" 5
	only_jumps "$pid"
	tell hoard "calls 1000" called
	finish hoard
}

# bats test_tags=release
@test "an address of a hook that is kept, and the agent is mapped" {
	load=map
	stays packed
	stays exit
}

@test "addresses of hooks in a word, with a tag, in a thread's variable, on the stack of a thread that sleeps" {
	local way
	for way in word tagged thread stack; do
		kept_in "$way" 0 || return 1
		nothing_of_ours "$pid" || return 1
		tell "$way" "use $way" used || fail "$way" || return 1
		finish "$way" || return 1
	done
}

@test "an address of a hook in a file below /dev, where others are devices" {
	((EUID == 0)) || skip "only root may ask what is mapped there"
	start dev "$TARGETS/hoard"
	attach "$pid"
	if ! tell dev "keep dev" kept; then
		skip "no file can be made in /dev"
	fi
	grep -q '/dev/#' "/proc/$pid/maps" || fail "$(<"/proc/$pid/maps")"
	stop "$pid"
	nothing_of_ours "$pid"
	tell dev "use dev" used
	finish dev
}

@test "addresses of hooks in 10,000 words: more than are put back in one stop" {
	kept_in many 0
	nothing_of_ours "$pid"
	tell many "use many" used
	finish many
}

@test "a program that has listed its mappings: where they begin and end are its own numbers, and no addresses of hooks" {
	kept_in maps 0
	nothing_of_ours "$pid"
	tell maps "use maps" used
	finish maps
}
