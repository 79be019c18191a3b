#!/usr/bin/env bats
# A program in namespaces of its own, as in a container: from the host, and from inside.

load helpers
setup() {
	begin
	unshare --mount --pid --net --fork true 2>/dev/null ||
		skip "making namespaces is not allowed here"
}
teardown() { end; }

# contained NAME COMMAND...: pid 1 of its own world, where neither this folder nor limpet exists.
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

# A folder that storm can have as its root.
make_root() {
	local library
	mkdir -p rootfs/{bin,proc}
	cp "$TARGETS/storm" rootfs/bin/storm
	while read -r library; do
		mkdir -p "rootfs${library%/*}"
		cp -L "$library" "rootfs$library"
	done < <(ldd "$TARGETS/storm" | grep -oE '/[^ ]+')
}

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
	rounds "$pid" 20
	finish storm
}

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

@test "from the host, when there is no /proc in its root: refused, by that name" {
	make_root
	start storm chroot "$work/rootfs" /bin/storm --threads 2
	look "$pid"
	refused 3 "/proc" "$LIMPET" attach "$pid"
	unchanged "$pid"
	finish storm
}

@test "from inside: limpet attach 1" {
	contained storm "$TARGETS/storm" --threads 2
	local inside=(nsenter --target "$pid" --root --mount --pid --net --ipc --uts)
	# Never anybody else's pid 1.
	[[ $("${inside[@]}" cat /proc/1/comm) == storm ]]
	trace=$work/inside.limpet
	env --default-signal=INT,HUP "${inside[@]}" "$LIMPET" attach 1 -o "$trace" \
		>inside.say 2>inside.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	inside_captures() {
		"${inside[@]}" "$LIMPET" status 1 --json 2>/dev/null |
			json_says '.captures[0].state == "capturing"'
	}
	wait_until 30 inside_captures
	tell storm "leak 21" leaked
	"${inside[@]}" timeout 60 "$LIMPET" stop 1
	attached 0
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 21
	nothing_of_ours "$pid"
	finish storm
}
