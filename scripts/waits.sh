#!/usr/bin/env bash
# Measures how many calls that wait one thread of PHP waits for at once: svc in worker mode without and with runtime hooks,
# and Swoole with its coroutine hooks where it is there, in turn, in one run.
#
# Each request opens a connection and waits 50 ms for its answer, so a thread that waits for one call at a time answers 20
# requests a second at most, and one that waits for all 64 connections 1,280. MariaDB, PostgreSQL, Redis and the HTTP
# backend (another svc) are started on loopback ports, and end with the script.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: scripts/waits.sh [--quick] [CALL]...

  --quick  one round of one second: checks that everything works, measures nothing
  CALL     of hello, sleep, curl, fgc (file_get_contents), pdo_mysql, mysqli, pdo_pgsql, pgsql, redis, exec; default: all

Environment (default):
  ROUNDS (3)  SECONDS_EACH (5)  CONNECTIONS (64)
  SVC               the svc binary to measure (target/release/svc)
  PEERS_SWOOLE_PHP  the PHP that loads Swoole, with the extensions that the calls need; without it, Swoole is left out
  PEERS_SWOOLE_SO   the extension, if no php.ini has it
TEXT
}

here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-3} seconds_each=${SECONDS_EACH:-5} connections=${CONNECTIONS:-64}
svc=${SVC:-${CARGO_TARGET_DIR:-$(dirname "$here")/target}/release/svc}
calls=()
for argument; do
    case $argument in
        --quick) rounds=1 seconds_each=1 ;;
        -h | --help) usage; exit ;;
        -*) usage >&2; exit 2 ;;
        *) calls+=("$argument") ;;
    esac
done
[ ${#calls[@]} -gt 0 ] || calls=(hello sleep curl fgc pdo_mysql mysqli pdo_pgsql pgsql redis exec)

say() { printf 'waits: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
for program in wrk curl mariadbd mariadb-install-db redis-server; do
    command -v "$program" >/dev/null || die "$program is missing"
done
[ -x "$svc" ] || die "$svc is missing; make build"
postgres=$(find /usr/lib/postgresql -name initdb -printf '%h\n' | sort -V | tail -n 1)
[ -n "$postgres" ] || die 'postgresql is missing'

work=$(mktemp -d)
chmod 755 "$work"
declare -A port pid
finish() {
    local name
    for name in "${!pid[@]}"; do kill "${pid[$name]}" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

free_port() {
    local candidate
    while :; do
        candidate=$((RANDOM % 12000 + 20000))
        grep -qx "$candidate" "$work/ports" 2>/dev/null && continue
        (: <>"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null && continue
        echo "$candidate" | tee -a "$work/ports"
        return
    done
}

# Starts the command that follows as server $1, in the background.
launch() {
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
    pid[$name]=$!
}

until_true() {
    local tries=0
    until "$@" >/dev/null 2>&1; do
        [ $((tries++)) -lt 300 ] || die "never came true: $*"
        sleep 0.1
    done
}

# Other users than root start PostgreSQL themselves.
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

start_databases() {
    local user=()
    [ "$(id -u)" != 0 ] || user=(--user=root)
    mariadb-install-db --no-defaults "${user[@]}" --datadir="$work/mysql" --skip-test-db >"$work/mysql-install.log" 2>&1
    echo "CREATE USER waits@'%' IDENTIFIED BY 'waits';" >"$work/users.sql"
    launch mysql mariadbd --no-defaults "${user[@]}" --datadir="$work/mysql" --socket="$work/mysql.socket" --port="${port[mysql]}" \
        --bind-address=127.0.0.1 --skip-name-resolve --max-connections=500 --init-file="$work/users.sql"
    mkdir "$work/pgsql"
    [ "$(id -u)" != 0 ] || chown postgres "$work/pgsql"
    as_postgres "$postgres/initdb" --no-sync --auth=trust --username=waits --pgdata="$work/pgsql" >"$work/pgsql-init.log" 2>&1
    launch pgsql as_postgres "$postgres/postgres" -D "$work/pgsql" -k "$work/pgsql" -p "${port[pgsql]}" -c listen_addresses=127.0.0.1 \
        -c max_connections=300 -c fsync=off
    launch redis redis-server --port "${port[redis]}" --bind 127.0.0.1 --save ''
}

# Starts svc as server $1, with the script $2 and the hooks $3.
start_svc() {
    local extensions
    extensions=$("$here/php-extensions.sh")
    launch "$1" env LISTEN_ADDR="127.0.0.1:${port[$1]}" INTERNAL_ADDR="127.0.0.1:$(free_port)" DOCUMENT_ROOT="$here/waits" \
        ENTRY_FILE="$2" WORKER_MODE_ENABLED=true PHP_WORKERS=1 RUNTIME_HOOKS="$3" ACCESS_LOG=off QUEUE_WAIT_TIMEOUT_MS=60000 \
        "$svc" serve -d "extension=$extensions/redis.so"
}

# Prints the body that server $1 answers call $2 with.
answer() { curl -sf -m 10 "http://127.0.0.1:${port[$1]}/?call=$2"; }

# The processor time of server $1 and its children that have ended, in microseconds.
processor_time() {
    sed 's/^.*) //' "/proc/${pid[$1]}/stat" | awk -v tick="$(getconf CLK_TCK)" '{ print ($12 + $13 + $14 + $15) * 1000000 / tick }'
}

# A line of the results: call, server, responses a second, microseconds of processor time a response.
measure() {
    local before after count
    before=$(processor_time "$2")
    wrk -t 1 -c "$connections" -d "${seconds_each}s" --timeout 10s "http://127.0.0.1:${port[$2]}/?call=$1" >"$work/wrk" 2>&1
    after=$(processor_time "$2")
    ! grep -q 'Non-2xx' "$work/wrk" || die "$2 fails at $1: $(grep 'Non-2xx' "$work/wrk")"
    count=$(awk '/requests in/ { print $1 }' "$work/wrk")
    awk -v call="$1" -v server="$2" -v count="$count" -v seconds="$seconds_each" -v time="$((${after%.*} - ${before%.*}))" \
        'BEGIN { print call, server, count / seconds, (count > 0 ? time / count : 0) }' >>"$work/results"
}

# Prints the median of column $3 for call $1 and server $2.
median() {
    awk -v call="$1" -v server="$2" -v column="$3" '$1 == call && $2 == server { print $column }' "$work/results" | sort -n |
        awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

for name in backend mysql pgsql redis none all swoole; do port[$name]=$(free_port); done
export WAITS_PORTS="${port[backend]} ${port[mysql]} ${port[pgsql]} ${port[redis]}"
servers=(none all)
start_databases
start_svc backend backend.php sleep
start_svc none index.php none
start_svc all index.php all
if [ -n "${PEERS_SWOOLE_PHP:-}" ]; then
    servers+=(swoole)
    launch swoole "$PEERS_SWOOLE_PHP" ${PEERS_SWOOLE_SO:+-d "extension=$PEERS_SWOOLE_SO"} "$here/waits/swoole.php" "${port[swoole]}"
fi
for call in "${calls[@]}"; do
    until_true answer all "$call"
    for server in "${servers[@]}"; do
        until_true answer "$server" hello
        [ "$(answer "$server" "$call")" = "$(answer all "$call")" ] || die "$server does not answer $call as svc does"
    done
done

for ((round = 1; round <= rounds; round++)); do
    for call in "${calls[@]}"; do
        say "round $round of $rounds: $call"
        for server in "${servers[@]}"; do measure "$call" "$server"; done
    done
done
printf '%d rounds of %d s; %d connections of wrk, one thread of PHP; %d CPUs, shared with everything; median\n' \
    "$rounds" "$seconds_each" "$connections" "$(nproc)"
printf '%-10s' call
for server in "${servers[@]}"; do printf ' %22s' "$server"; done
echo
for call in "${calls[@]}"; do
    printf '%-10s' "$call"
    for server in "${servers[@]}"; do
        printf ' %9.0f/s %6.0f us CPU' "$(median "$call" "$server" 3)" "$(median "$call" "$server" 4)"
    done
    echo
done
