#!/usr/bin/env bats
# Signal handlers that fork in the middle of malloc and free, or of a hook: the child returns into it, and writes
# nothing to what its parent and limpet share.

load helpers
setup() { begin; }
teardown() { end; }

# branched THREADS [OPTION...]: each call of the program is in its trace, none of its children's is.
branched() {
	start brancher "$TARGETS/brancher" "$1" || return 1
	attach "$pid" "${@:2}" || return 1
	tell brancher "branch 300" branched || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "the calls" "$(site_sum brancher_work allocations)" "${answer#branched }" || return 1
	same "what they left" "$(site_sum brancher_work live_allocations)" 0 || return 1
	nothing_of_ours "$pid" || return 1
	tell brancher "branch 10" branched || return 1
	finish brancher
}

@test "handlers that fork in a hook, by every way that takes no lock: each call of the parent is there" {
	branched 2
}

@test "handlers that fork in a hook, in a program of one thread: each call of the parent is there" {
	branched 0
}

@test "handlers that fork in a hook, where threads wait for room: each call of the parent is there" {
	overload="wait" branched 2 --memory 8MiB
}

# bats test_tags=release
@test "handlers that fork in a hook, where little room means samples: each call of the parent is there" {
	overload=sample branched 2
}

# bats test_tags=release
@test "handlers that fork in a hook, where the agent is mapped: each call of the parent is there" {
	load=map branched 2
}

# bats test_tags=release
@test "handlers that fork in a hook, under sampling: the trace is complete" {
	start brancher "$TARGETS/brancher" 2
	attach "$pid" --sample 1KiB
	tell brancher "branch 300" branched
	stop "$pid"
	good_capture
	finish brancher
}

# bats test_tags=release
@test "handlers that fork in a hook, while limpet comes and goes" {
	start brancher "$TARGETS/brancher" 2
	tell brancher go going
	for ((round = 0; round < 10; round++)); do
		attach "$pid"
		stop "$pid"
		good_capture
	done
	tell brancher halt branched
	nothing_of_ours "$pid"
	finish brancher
}

# bats test_tags=release
@test "handlers that fork in a hook, and limpet is killed" {
	start brancher "$TARGETS/brancher" 2
	tell brancher go going
	for ((round = 0; round < 3; round++)); do
		attach "$pid"
		kill -KILL "$limpet_job"
		exit_status_of "$limpet_job" 10
		cleaned_up "$pid"
	done
	tell brancher halt branched
	finish brancher
}
