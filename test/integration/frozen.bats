#!/usr/bin/env bats
# Programs that a freezer holds (docker pause, systemctl freeze): version 1's and version 2's.
# time-limit: 120

load helpers
setup() {
	begin
	freezers=()
	((EUID == 0)) || skip "freezing takes root"
	add_freezer "$(findmnt -n -o TARGET -t cgroup -O freezer | head -n 1)" freezer.state FROZEN THAWED
	add_freezer "$(findmnt -n -o TARGET -t cgroup2 | head -n 1)" cgroup.freeze 1 0
	((${#freezers[@]})) || skip "no cgroup can be frozen here"
}
teardown() {
	for group in "${groups[@]}"; do
		thaw
	done
	end
	remove_groups
}

# add_freezer ROOT FILE ON OFF: if a group can be made there.
add_freezer() {
	local group=$1/limpet-frozen.$$
	[[ -n $1 ]] && mkdir "$group" "$group/inner" 2>/dev/null || return 0
	groups+=("$group/inner" "$group")
	[[ ! -e $group/$2 ]] || freezers+=("$group $2 $3 $4")
}

# choose FREEZER: sets `group`, and what else freeze and thaw need.
choose() {
	read -r group switch frozen thawed <<<"$1"
}
freeze() {
	echo "$frozen" >"$group/$switch"
	wait_until 10 is_frozen
}
thaw() {
	local at
	for at in "$group"/{freezer.state,cgroup.freeze}; do
		[[ ! -e $at ]] || { echo THAWED >"$at" || echo 0 >"$at"; } 2>/dev/null
	done
}
is_frozen() {
	if [[ $switch == freezer.state ]]; then
		[[ $(<"$group/freezer.state") == FROZEN ]]
	else
		grep -q '^frozen 1$' "$group/cgroup.events"
	fi
}

# start_inside NAME: a storm in the group below.
start_inside() {
	start "$1" bash -c 'echo $$ >"$0/inner/cgroup.procs" && exec "$@"' "$group" "$TARGETS/storm" --threads 2
}

# track: container | frozen (docker pause) | refused | with the group, and the command that thaws it
@test "a frozen program: refused by attach and doctor, with the group and the command that thaws it" {
	for freezer in "${freezers[@]}"; do
		choose "$freezer"
		start_inside "$switch"
		freeze
		refused_by_both "$pid" frozen "frozen, by its control group $group\$"
		refused 3 "frozen" "$LIMPET" attach --attach-timeout 1s "$pid"
		[[ ${stderr_lines[1]} == "hint: thaw it: "* ]] || fail "$stderr"
		bash -c "${stderr_lines[1]#hint: thaw it: }"
		! is_frozen
		"$LIMPET" doctor "$pid" >doctor.text
		counted_phase "$switch" 100
		finish "$switch"
	done
}

@test "frozen while it is captured: left when it is thawed" {
	for freezer in "${freezers[@]}"; do
		choose "$freezer"
		start_inside "$switch"
		attach "$pid"
		tell "$switch" "leak 20" leaked
		freeze
		"$LIMPET" stop "$pid" >stop.say 2>stop.err 3>&- &
		job_of[stop]=$!
		wait_until 20 grep -q "is frozen, by its control group $group: waiting for the thaw, as long as its --attach-timeout" stop.err
		thaw
		result stop 0
		attached 0
		good_capture
		same leaks "$(site_sum storm_leak allocations)" 20
		nothing_of_ours "$pid"
		finish "$switch"
	done
}

@test "frozen while it is captured, and for longer than limpet waits: the agent stays, no thread is stopped, and that is said" {
	for freezer in "${freezers[@]}"; do
		choose "$freezer"
		start_inside "$switch"
		attach "$pid" --attach-timeout 1s
		tell "$switch" "leak 20" leaked
		freeze
		stop "$pid" 5
		grep -q "^limpet: process $pid is frozen, by its control group $group\$" "attach.$captures.err" ||
			fail "$(<"attach.$captures.err")"
		grep -q "is frozen, by its control group $group; thaw it: echo " stop.err || fail "$(<stop.err)"
		report
		expect '.capture.complete and (.capture.agent_unloaded | not)'
		grep -qE '; stops: attach [0-9.]+ [a-z]+$' "attach.$captures.err" || fail "$(<"attach.$captures.err")"
		same leaks "$(site_sum storm_leak allocations)" 20
		refused 5 "is frozen, by its control group" "$LIMPET" stop "$pid"
		thaw
		tell "$switch" "run 100" ran
		cleaned_up "$pid"
		finish "$switch"
	done
}

# bats test_tags=release
@test "frozen at any moment of an attach and of a detach: not harmed, and clean once it is thawed" {
	for freezer in "${freezers[@]}"; do
		choose "$freezer"
		start_inside "$switch"
		tell "$switch" go going
		for ((i = 0; i < 25; i++)); do
			"$LIMPET" attach "$pid" -q -o "at.$i.$switch.limpet" --no-seal --attach-timeout 300ms -d 100ms >say 2>err 3>&- </dev/null &
			limpet_job=$!
			limpet_jobs+=("$limpet_job")
			pause 0.0$((RANDOM % 10))$((RANDOM % 10))
			freeze
			# Until it has given up: more than once its time to attach and to detach.
			exit_status_of "$limpet_job" 60
			[[ $status == 0 ]] || grep -q "frozen" err || fail "status $status: $(<err)"
			thaw
			cleaned_up "$pid" 01
		done
		tell "$switch" hold held
		finish "$switch"
	done
}
