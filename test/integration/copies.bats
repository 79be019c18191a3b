#!/usr/bin/env bats
# Addresses of hooks that the program keeps: nothing that it calls later may be gone.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# kept_in WAY STATUS [TARGET...]: it keeps an address during a capture, which ends with this status, and calls it
# afterwards.
kept_in() {
	start "$1" "${@:3}" || return 1
	attach "$pid" || return 1
	tell "$1" "keep $1" kept || return 1
	stop "$pid" "$2" || fail "$1" || return 1
	tell "$1" "use $1" used || fail "$1" || return 1
}

# stays WAY [TARGET]: where nothing is put back.
stays() {
	kept_in "$1" 5 "${2:-$TARGETS/copies}" || return 1
	grep -q 'keeps addresses of hooks where they are not put back' "$work/attach.$captures.err" || fail "$1" || return 1
	finish "$1"
}

@test "an address of a hook in a packed structure, or with a tag" {
	stays packed
	stays tagged
}

@test "an address of a hook in a page that was closed since, of its own, of a file, or shared" {
	local way
	for way in closed file shared none; do
		stays "$way" || return 1
	done
}

@test "an address of a hook in generated code, as a number or as a distance" {
	stays code
	stays distance
}

@test "an address of a hook that glibc keeps mangled: for the exit, in a jmp_buf" {
	stays exit
	stays jump
}

@test "addresses of hooks in a word, in a thread's variable, on the stack of a thread that sleeps" {
	local way
	for way in word thread stack; do
		kept_in "$way" 0 "$TARGETS/copies" || return 1
		nothing_of_ours "$pid" || return 1
		finish "$way" || return 1
	done
}
