# shellcheck shell=bash
# RoadRunner as peers.sh measures it, with the worker in roadrunner.php (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work here site front environment workers rr rr_php port roots loop

rr_label() { echo RoadRunner; }
rr_absent() {
    if [ -z "$rr" ]; then
        echo 'PEERS_RR names no rr'
    elif [ -z "$(rr_php_program)" ]; then
        echo 'there is no PHP for its workers (PEERS_RR_PHP names one)'
    else
        program_absent "$rr"
    fi
}
rr_version() { "$rr" --version 2>/dev/null | sed -nE 's/^rr version ([^ ]+).*/RoadRunner \1/p'; }
# Those of the command line; the worker's responses use neither.
rr_excuse() { echo '^(output_buffering|register_argc_argv)='; }
rr_start() {
    fill roadrunner.yaml "$work/rr.yaml" "SITE=$site" "PORT=${port[rr]}" "WORKERS=$workers" \
        "COMMAND=$(rr_php_program) -c $work/php.ini $here/peers/roadrunner.php $site/${loop[rr]}" \
        "MIDDLEWARE=$([ -n "$front" ] || echo static)"
    env "${environment[@]}" "$rr" serve -s -c "$work/rr.yaml" >"$work/rr.log" 2>&1 &
    roots[rr]=$!
}

rr_php_program() { echo "${rr_php:-$(newest 'php[0-9.]*')}"; }
