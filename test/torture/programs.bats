#!/usr/bin/env bats
# Programs of the world under load, captured again and again: their clients check every answer, and nothing
# is left in them. PROGRAM_ROUNDS says how often: a few for `make test`, a thousand each for `make torture`.
# time-limit: 300

load ../integration/helpers
load captures
setup() {
	begin
	folder=$(mktemp -d /tmp/limpet-rounds.XXXXXX)
}
teardown() {
	# The children of a server follow it at once.
	if [[ -n ${job_of[postgres]:-} ]]; then
		[[ -z ${job_of[client]:-} ]] || end_process "${job_of[client]}" 5
		kill -INT "${job_of[postgres]}" 2>/dev/null || true
		wait_until 10 ended "${job_of[postgres]}" || true
	fi
	end
	rm -rf "$folder"
}

: "${PROGRAM_ROUNDS:=6}"

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

serving() {
	grep -q '^ready ' "$work/server.say"
}
always_busy() {
	:
}

@test "node under HTTP load" {
	LEAK_EVERY=0 node "$root/test/targets/server.js" >server.say 2>server.err </dev/null 3>&- &
	job_of[server]=$!
	wait_until 30 serving
	read -r _ pid port <server.say
	start load node "$root/test/targets/load.js" "$port" 2
	busy=always_busy quiet=always_busy own=(--jit)
	capture_rounds node "${job_of[server]}" "$PROGRAM_ROUNDS" --threads 2 --hold 20-60
	tell load "window rounds" '{'
	json_says '.errors == 0 and .requests > 0' <<<"$answer" || fail "the client says $answer"
	echo "# figures:   node: $(jq .requests <<<"$answer") requests, every answer right" >&3
	eval "exec ${in_of[load]}>&-"
	result load 0
	curl -sf "http://127.0.0.1:$port/quit" >/dev/null
	result server 0
	quick_attach node
}

# ------------------------------------------------------------------ redis

redis_answers() {
	[[ $(redis-cli -s "$work/redis.sock" ping 2>/dev/null) == PONG ]]
}

@test "redis-server" {
	# jemalloc starts a thread of its own with each new arena, whenever that is.
	redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" --daemonize no \
		--jemalloc-bg-thread no >redis.say 2>redis.err </dev/null 3>&- &
	job_of[redis]=$!
	wait_until 20 redis_answers
	start client python3 "$root/test/targets/client.py" redis "$work/redis.sock" 4
	capture_rounds redis "${job_of[redis]}" "$PROGRAM_ROUNDS" --hold 10-40
	right_answers redis
	redis-cli -s "$work/redis.sock" shutdown nosave || true
	result redis 0
	quick_attach redis
}

# ------------------------------------------------------------------ python

python_busy() {
	tell python go going
}
python_quiet() {
	tell python hold held
}

@test "python3 with threads" {
	start python env PYTHONMALLOC=malloc /usr/bin/python3 "$root/test/targets/pyload.py"
	busy=python_busy quiet=python_quiet
	capture_rounds python "$pid" "$PROGRAM_ROUNDS" --threads 2 --hold 30-90
	tell python count '{'
	json_says '.wrong == 0 and .rounds > 0' <<<"$answer" || fail "python says $answer"
	echo "# figures:   python: $(jq .rounds <<<"$answer") digests, every one right" >&3
	finish python
	quick_attach python
}

# ------------------------------------------------------------------ PostgreSQL

# Its programs are on no PATH, and it refuses to run as root.
postgres_bin() {
	local bin
	for bin in /usr/lib/postgresql/*/bin; do
		[[ -x $bin/postgres ]] && echo "$bin" && return 0
	done
	return 1
}
as_postgres() (
	cd "$folder" || exit 1
	if ((EUID == 0)); then
		setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$folder" "$@"
	else
		"$@"
	fi
)
postgres_answers() {
	as_postgres "$bin/pg_isready" -q -h "$folder"
}

# postgres_server: in $folder, known only there.
postgres_server() {
	local owner
	bin=$(postgres_bin) || skip "no PostgreSQL server under /usr/lib/postgresql"
	owner=$(id -un)
	if ((EUID == 0)); then
		id postgres >/dev/null 2>&1 || skip "no user postgres, and PostgreSQL refuses to run as root"
		owner=postgres
	fi
	mkdir "$folder/data"
	chown "$owner" "$folder" "$folder/data"
	as_postgres "$bin/initdb" -D "$folder/data" -U tester -A trust -E UTF8 --locale=C >initdb.say 2>initdb.err
	# exec: the process of this shell becomes the server.
	(
		cd "$folder" || exit 1
		if ((EUID == 0)); then
			exec setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D data -k "$folder" \
				-c listen_addresses= -c fsync=off -c shared_buffers=16MB -c jit=off
		fi
		exec "$bin/postgres" -D data -k "$folder" -c listen_addresses= -c fsync=off -c shared_buffers=16MB -c jit=off
	) >postgres.say 2>postgres.err </dev/null 3>&- &
	job_of[postgres]=$!
	wait_until 30 postgres_answers
	as_postgres "$bin/psql" -q -h "$folder" -U tester -d postgres -c \
		'create table counters as select id, 0 as value from generate_series(0, 7) id;
		create unique index on counters (id)' </dev/null
}
postgres_ends() {
	kill -INT "${job_of[postgres]}"
	result postgres 0
}

@test "postgres: a backend" {
	local backend
	postgres_server
	start client python3 "$root/test/targets/client.py" postgres "$folder/.s.PGSQL.5432" 2
	tell client go going
	tell client pid pid
	backend=${answer#pid }
	# A pause would end the session that is looked at.
	busy=always_busy quiet=always_busy own=(--own "$folder")
	capture_rounds postgres "$backend" "$PROGRAM_ROUNDS" --hold 20-60
	tell client hold held
	right_answers postgres
	postgres_ends
	quick_attach postgres
}

@test "postgres: the postmaster, while sessions come and go" {
	postgres_server
	start client python3 "$root/test/targets/client.py" postgres "$folder/.s.PGSQL.5432" 2 reconnect
	own=(--own "$folder")
	capture_rounds postmaster "${job_of[postgres]}" "$PROGRAM_ROUNDS" --hold 40-100
	right_answers postmaster
	postgres_ends
	quick_attach postmaster
}

# ------------------------------------------------------------------ nginx

nginx_answers() {
	[[ -S $folder/nginx.sock ]] && worker=$(pgrep -P "${job_of[nginx]}" | head -n 1) && [[ -n $worker ]]
}

@test "nginx: a worker" {
	local nginx worker size
	nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "no nginx"
	chmod 755 "$folder"
	mkdir "$folder/files" "$folder/temp"
	for size in 0 1 700 20000 300000; do
		head -c "$size" /dev/urandom >"$folder/files/$size"
	done
	{
		((EUID != 0)) || echo 'user nobody nogroup;'
		cat <<-EOF
			daemon off;
			worker_processes 1;
			pid $folder/nginx.pid;
			error_log $folder/error.log;
			events { worker_connections 64; }
			http {
			    access_log off;
			    client_body_temp_path $folder/temp/body;
			    proxy_temp_path $folder/temp/proxy;
			    fastcgi_temp_path $folder/temp/fastcgi;
			    uwsgi_temp_path $folder/temp/uwsgi;
			    scgi_temp_path $folder/temp/scgi;
			    server { listen unix:$folder/nginx.sock; root $folder/files; }
			}
		EOF
	} >nginx.conf
	"$nginx" -p "$folder" -e "$folder/error.log" -c "$work/nginx.conf" >nginx.say 2>nginx.err </dev/null 3>&- &
	job_of[nginx]=$!
	wait_until 20 nginx_answers
	start client python3 "$root/test/targets/client.py" http "$folder/nginx.sock" "$folder/files" 4
	capture_rounds nginx "$worker" "$PROGRAM_ROUNDS" --hold 20-60
	right_answers nginx
	[[ $(pgrep -P "${job_of[nginx]}" | head -n 1) == "$worker" ]] || fail "the worker was replaced"
	kill -QUIT "${job_of[nginx]}"
	result nginx 0
	quick_attach nginx
}
