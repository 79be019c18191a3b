#!/usr/bin/env bats
# A program in namespaces of its own, as in a container: from the host, and from inside.

load helpers
# More of them: make torture.
: "${PROGRAM_CAPTURES:=1}"
setup() {
	begin
	unshare --mount --pid --net --fork true 2>/dev/null ||
		skip "making namespaces is not allowed here"
}
teardown() { end; }

# contained NAME COMMAND...: pid 1 of its own world, where neither this directory nor limpet exists.
# Sets `pid` to its number outside.
contained() {
	local name=$1
	shift
	start "$name" unshare --mount --pid --net --ipc --uts --fork --kill-child --mount-proc "$@" ||
		return 1
	# What the target calls itself is 1.
	same "pid inside" "$pid" 1 || return 1
	pid=$(pgrep -P "${job_of[$name]}")
}

# A directory that storm can have as its root.
make_root() {
	local library
	mkdir -p rootfs/{bin,proc}
	cp "$TARGETS/storm" rootfs/bin/storm
	while read -r library; do
		mkdir -p "rootfs${library%/*}"
		cp -L "$library" "rootfs$library"
	done < <(ldd "$TARGETS/storm" | grep -oE '/[^ ]+')
}

# track: container | mount, pid and net namespaces of its own | attach | from the host, nothing installed inside
# bats test_tags=check
@test "from the host, by its pid outside" {
	contained storm "$TARGETS/storm" --threads 2
	look "$pid"
	attach "$pid"
	tell storm "leak 30" leaked
	stop "$pid"
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 30
	expect '.sites[0].stack[0] | .function == "storm_leak" and .line > 0'
	unchanged "$pid"
	rounds "$pid" "$PROGRAM_CAPTURES"
	finish storm
}

# track: container | chroot; its files deleted | attach | from the host
@test "from the host, when the program sees another root and its files are gone" {
	make_root
	contained storm bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/storm --threads 2' \
		"$work/rootfs"
	attach "$pid"
	rm rootfs/bin/storm
	tell storm "leak 12" leaked
	stop "$pid"
	good_capture
	expect '.totals.allocations == 12 and .totals.live_bytes == 12000'
	nothing_of_ours "$pid"
	finish storm
}

# track: container | chroot without /proc | attach | from the host, with a mapped agent
@test "from the host, when there is no /proc in its root: dlopen would find nothing, so the agent is mapped" {
	make_root
	start storm chroot "$work/rootfs" /bin/storm --threads 2
	"$LIMPET" doctor "$pid" --json | json_says '[.findings[] | select(.id == "agent") | .text] | any(test("/proc"))'
	counted_phase storm 2000
	nothing_of_ours "$pid"
	finish storm
}

@test "from inside: limpet attach 1" {
	contained storm "$TARGETS/storm" --threads 2
	local inside=(nsenter --target "$pid" --root --mount --pid --net --ipc --uts)
	# Never anybody else's pid 1.
	[[ $("${inside[@]}" cat /proc/1/comm) == storm ]]
	trace=$work/inside.limpet
	env --default-signal=INT,HUP "${inside[@]}" "$LIMPET" attach 1 -o "$trace" "${patiently[@]}" \
		>inside.say 2>inside.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing 1 "${inside[@]}" "$LIMPET"
	tell storm "leak 21" leaked
	within 60 "${inside[@]}" "$LIMPET" stop 1
	attached 0
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 21
	nothing_of_ours "$pid"
	finish storm
}

# leaks NAME PID: a capture from here of a storm that is left as it was.
leaks() {
	attach "$2" || return 1
	tell "$1" "leak 30" leaked || return 1
	stop "$2" || return 1
	good_capture || return 1
	same "leaks" "$(site_sum storm_leak allocations)" 30 || return 1
	unchanged "$2"
}

@test "whatever vm.memfd_noexec says" {
	local level
	[[ -e /proc/sys/vm/memfd_noexec ]] || skip "this kernel has no vm.memfd_noexec"
	for level in 1 2; do
		contained "storm$level" bash -c 'echo "$0" >/proc/sys/vm/memfd_noexec && exec "$@"' \
			"$level" "$TARGETS/storm" --threads 2
		same "the setting inside" "$(nsenter --target "$pid" --mount --pid cat /proc/sys/vm/memfd_noexec)" "$level"
		look "$pid"
		leaks "storm$level" "$pid"
		finish "storm$level"
	done
}

# As container engines have it: nothing can be written or executed where it could be helped, /dev/shm is
# full, few capabilities, a filter.
docker_caps=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap
docker_caps+=,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap
tight() {
	contained "$1" bash -c '
		mount -t tmpfs -o noexec,nosuid,nodev,size=64k tmpfs /dev/shm &&
		mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmpfs /run &&
		mount -t proc -o noexec,nosuid,nodev proc /proc &&
		mount -o remount,bind,ro / &&
		{ head -c 1M /dev/zero >/dev/shm/full 2>/dev/null || true; } &&
		exec setpriv --inh-caps=-all --bounding-set="$0" --no-new-privs "$@"' \
		"$docker_caps" "${@:2}"
}

# track: container | read-only root, noexec mounts, Docker's capabilities and seccomp filter | attach | from the host
@test "a container such as Docker's, from the host: read-only, noexec, /dev/shm full, its filter" {
	tight storm "$TARGETS/confined" --docker "$TARGETS/storm" --threads 2
	grep -q '^Seccomp:[[:space:]]2$' "/proc/$pid/status"
	grep -q '^CapEff:[[:space:]]00000000a80425fb$' "/proc/$pid/status"
	[[ $(stat -f -c %a "/proc/$pid/root/dev/shm") == 0 ]]
	look "$pid"
	leaks storm "$pid"
	finish storm
}

# enter PID PROFILE [CAPABILITY]: sets `inside`, which runs a command as `docker exec` does.
enter() {
	inside=(nsenter --target "$1" --mount --pid --net --ipc --uts env LIMPET_RUNTIME_DIR=/run/limpet
		setpriv --inh-caps=-all --bounding-set="$docker_caps${3:+,+$3}" --no-new-privs
		"$TARGETS/confined" "$2")
}

# track: container | read-only root, noexec mounts, Docker's capabilities and seccomp filter: from inside | attach | also without CAP_SYS_PTRACE
@test "a container such as Docker's, from inside: captured, with SYS_PTRACE and without" {
	local inside way
	tight storm "$TARGETS/confined" --docker "$TARGETS/storm" --threads 2
	look "$pid"
	for way in "--docker" "--docker-ptrace sys_ptrace"; do
		# shellcheck disable=SC2086
		enter "$pid" $way
		"${inside[@]}" "$LIMPET" attach 1 -o "/run/${way%% *}.limpet" "${patiently[@]}" \
			>inside.say 2>inside.err </dev/null 3>&- &
		limpet_job=$!
		limpet_jobs+=("$limpet_job")
		wait_until 60 capturing 1 "${inside[@]}" "$LIMPET"
		tell storm "leak 21" leaked
		within 60 "${inside[@]}" "$LIMPET" stop 1
		attached 0
		trace=$work/inside.limpet
		cp "/proc/$pid/root/run/${way%% *}.limpet" "$trace"
		good_capture
		same "leaks" "$(site_sum storm_leak allocations)" 21
		unchanged "$pid"
	done
	finish storm
}

# track: container | a user namespace of its own | attach | from the host, and from inside
@test "a user namespace, from the host" {
	contained storm unshare --user --map-root-user "$TARGETS/storm" --threads 2
	[[ $(readlink "/proc/$pid/ns/user") != "$(readlink /proc/self/ns/user)" ]]
	look "$pid"
	leaks storm "$pid"
	finish storm
}

@test "a user namespace, from inside: its own processes, and none outside of it" {
	((EUID == 0)) || skip "only root can become another user"
	make_theirs
	cp "$TARGETS/storm" "$theirs"
	chmod 711 "$theirs" "$work"
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	start outside "${user[@]}" "$theirs/storm"
	start storm "${user[@]}" unshare --user --map-root-user "$theirs/storm" --threads 2
	local target=$pid
	local enter=("${user[@]}" nsenter --target "$target" --user --preserve-credentials
		env LIMPET_RUNTIME_DIR="$theirs/run")
	look "$target"
	limpet_command=("${enter[@]}" "$theirs/limpet")
	"${limpet_command[@]}" attach "$target" "${patiently[@]}" -d 50ms -q -o "$theirs/in.limpet" --no-seal
	same "its pid in the trace" "$("$LIMPET" report "$theirs/in.limpet" --json | jq .target.pid)" "$target"
	unchanged "$target"
	tell storm "run 1000" ran
	refused_by_both "${pid_of[outside]}" permission-namespace "user namespace"
	finish outside
	finish storm
}

@test "hidepid: what is hidden is refused by that name, what is not is captured" {
	((EUID == 0)) || skip "only root can become another user"
	make_theirs
	cp "$TARGETS/storm" "$theirs"
	local level
	for level in 1 2; do
		contained "init$level" bash -c 'mount -t proc -o "hidepid=$0" proc /proc && exec "$@"' "$level" \
			"$TARGETS/storm"
		local world=(nsenter --target "$pid" --mount --pid)
		start "root$level" "${world[@]}" "$TARGETS/storm"
		local hidden=$pid
		start "his$level" "${world[@]}" setpriv --reuid 65534 --regid 65534 --clear-groups "$theirs/storm"
		local his=$pid
		refused 3 "hide" "${world[@]}" "${as_nobody[@]}" attach -o /dev/null "$hidden"
		same "doctor's finding" "$("${world[@]}" "${as_nobody[@]}" doctor --json "$hidden" |
			jq -r '.findings[0].id')" hidepid
		"${world[@]}" "${as_nobody[@]}" attach "$his" "${patiently[@]}" -d 50ms -q -o "$theirs/$level.limpet"
		# root sees all
		"${world[@]}" env LIMPET_RUNTIME_DIR="$work/run" "$LIMPET" attach "$hidden" "${patiently[@]}" -d 50ms -q \
			-o "$work/$level.limpet"
		tell "his$level" "run 1000" ran
		tell "root$level" "run 1000" ran
		finish "his$level"
		finish "root$level"
		finish "init$level"
	done
}

# ------------------------------------------------------------------ file systems that a program serves

# begin_served: a loader whose files such a file system has, in a mount namespace of its own.
begin_served() {
	mkdir files point
	cp "$TARGETS/plugin.so" "$TARGETS/loader" files/
	start served "$TARGETS/served" files point 2>/dev/null ||
		skip "FUSE cannot be mounted here"
	start loader nsenter --mount="/proc/$pid/ns/mnt" "$work/point/loader" "$work/point/plugin.so"
	tell loader open opened
}

# track: container | files on a FUSE file system | attach | from the host; names from copies of the files
@test "a program on a file system that another serves: it is captured, with names" {
	begin_served
	attach "$pid"
	tell loader "allocate 100" allocated
	stop "$pid"
	report
	expect '.capture.complete and ([.sites[].stack[] | select(.function == "plugin_allocate" and .line)] | length > 0)'
	finish loader
	finish served
}

@test "a program on a file system that does not answer any more: limpet ends, and says so" {
	begin_served
	attach "$pid"
	tell served "silent open" silent
	tell loader "allocate 100" allocated
	stop "$pid"
	[[ $(<"attach.$captures.err") == *"point/"*"is not read: its file system does not answer; and 1 more"* ]] ||
		fail "it does not say so: $(<"attach.$captures.err")"
	report
	expect '.capture.complete and ([.sites[].stack[] | select(.function == "plugin_allocate")] | length == 0)'
	# Nor does it look at the program any more.
	run --separate-stderr within 60 "$LIMPET" attach "$pid" -d 50ms -o again.limpet "${patiently[@]}"
	[[ $status == 3 && $stderr == *"its executable cannot be read: its file system does not answer"* ]] ||
		fail "limpet ended with status $status: $stderr"
	[[ ! -e again.limpet ]]
	finish loader
	finish served
}
