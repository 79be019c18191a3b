#!/usr/bin/env bats
# Programs of the world under load, captured again and again: their clients check every answer, and nothing
# is left in them. PROGRAM_ROUNDS says how often: a few for `make test`, a thousand each for `make torture`.
# time-limit: 300

load ../integration/helpers
load captures
load servers
setup() { begin_with_servers; }
teardown() { end_with_servers; }

: "${PROGRAM_ROUNDS:=3}"

busy() {
	tell client go going
}
quiet() {
	tell client hold held
}
busy=busy quiet=quiet own=()

right_answers() {
	local requests
	tell client count '{' || return 1
	requests=$(jq .requests <<<"$answer")
	json_says '.errors == 0 and .requests > 0' <<<"$answer" || fail "the client says $answer" || return 1
	echo "# figures:   $1: $requests requests, every answer right" >&3
	finish client
}

# ------------------------------------------------------------------ node.js

always_busy() {
	:
}

# bats test_tags=release
@test "node under HTTP load" {
	node_server
	start load node "$root/test/targets/load.js" "$port" 2
	busy=always_busy quiet=always_busy own=(--jit)
	capture_rounds node "${job_of[server]}" "$PROGRAM_ROUNDS" --threads 2 --events 100-5000
	right_window load rounds
	echo "# figures:   node: $(jq .requests <<<"$answer") requests, every answer right" >&3
	eval "exec ${in_of[load]}>&-"
	result load 0
	curl -sf "http://127.0.0.1:$port/quit" >/dev/null
	result server 0
	quick_attach node
}

# ------------------------------------------------------------------ redis

# bats test_tags=release
@test "redis-server" {
	redis_server
	start client python3 "$root/test/targets/client.py" redis "$work/redis.sock" 4
	capture_rounds redis "${job_of[redis]}" "$PROGRAM_ROUNDS" --events 1-3000
	right_answers redis
	redis_ends
	quick_attach redis
}

# ------------------------------------------------------------------ python

python_busy() {
	tell python go going
}
python_quiet() {
	tell python hold held
}

# bats test_tags=release
@test "python3 with threads" {
	start python env PYTHONMALLOC=malloc /usr/bin/python3 "$root/test/targets/pyload.py"
	busy=python_busy quiet=python_quiet
	capture_rounds python "$pid" "$PROGRAM_ROUNDS" --threads 2 --events 1-50000
	tell python count '{'
	json_says '.wrong == 0 and .rounds > 0' <<<"$answer" || fail "python says $answer"
	echo "# figures:   python: $(jq .rounds <<<"$answer") digests, every one right" >&3
	finish python
	quick_attach python
}

# ------------------------------------------------------------------ Go

go_busy() {
	tell go go going
}
go_quiet() {
	tell go hold held
}

# Goroutines on stacks of their own, preempted by signals; threads that its runtime makes. Bound at once: its runtime
# calls munmap for the first time when it likes.
# bats test_tags=release
@test "Go with cgo" {
	start go env LD_BIND_NOW=1 "$TARGETS/churn-go"
	busy=go_busy quiet=go_quiet own=(--threads)
	capture_rounds go "$pid" "$PROGRAM_ROUNDS" --threads 2 --events 1-20000
	tell go count '{'
	echo "# figures:   go: $(jq .rounds <<<"$answer") rounds, every one right" >&3
	finish go
	quick_attach go
}

# ------------------------------------------------------------------ PostgreSQL

# bats test_tags=release
@test "postgres: a backend" {
	local backend
	postgres_server
	start client python3 "$root/test/targets/client.py" postgres "$directory/.s.PGSQL.5432" 2
	tell client go going
	tell client pid pid
	backend=${answer#pid }
	# A pause would end the session that is looked at.
	busy=always_busy quiet=always_busy own=(--own "$directory")
	capture_rounds postgres "$backend" "$PROGRAM_ROUNDS" --events 1-5000
	tell client hold held
	right_answers postgres
	postgres_ends
	quick_attach postgres
}

# bats test_tags=release
@test "postgres: the postmaster, while sessions come and go" {
	postgres_server
	start client python3 "$root/test/targets/client.py" postgres "$directory/.s.PGSQL.5432" 2 reconnect
	own=(--own "$directory")
	capture_rounds postmaster "${job_of[postgres]}" "$PROGRAM_ROUNDS" --events 1-60
	right_answers postmaster
	postgres_ends
	quick_attach postmaster
}

# ------------------------------------------------------------------ nginx

# bats test_tags=release
@test "nginx: a worker" {
	nginx_server
	start client python3 "$root/test/targets/client.py" http "$directory/nginx.sock" "$directory/files" 4
	capture_rounds nginx "$worker" "$PROGRAM_ROUNDS" --events 1-1000
	right_answers nginx
	[[ $(pgrep -P "${job_of[nginx]}" | head -n 1) == "$worker" ]] || fail "the worker was replaced"
	nginx_ends
	quick_attach nginx
}
