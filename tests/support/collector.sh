# SPDX-License-Identifier: Apache-2.0
# collector.sh - sourced behind tap.sh: a heaplined of the test's own.
# shellcheck shell=sh

fake=$builddir/fake_client
sock=$T/s spool=$T/spool conf=$T/conf
daemon= children=
cleanup() {
    for p in $children $daemon; do kill -9 "$p" 2>/dev/null; done
    rm -rf "$T"
}
# A spool on whatever the test runs on: no share of a nearly full disk.
cat >"$conf" <<'EOC'
quota_per_uid = 0
quota_total = 0
min_free = 0
log_level = debug
log_burst = 0
EOC

until_true() { # COMMAND...: waits for it, without a deadline of its own
    for _ in $(seq 600); do
        "$@" && return 0
        sleep 0.05
    done
    return 1
}
answers() { "$fake" "$sock" probe gather >/dev/null 2>&1; }
# Without a hello, which would make a private collector know somebody.
listening() { timeout 10 "$fake" "$sock" probe raw=48 >/dev/null 2>&1; }
start() { # OPTION...
    "$collector" -f -c "$conf" --socket "$sock" --spool "$spool" "$@" 2>>log &
    daemon=$!
    until_true answers || echo "# heaplined does not answer: $(tail -n 1 log)"
}
stop() { # the exit status in $status
    kill -TERM "$daemon"
    wait "$daemon"
    status=$?
    [ $status = 0 ] || tail -n 40 log | sed 's/^/# log: /'
    daemon=
}
crash() {
    kill -KILL "$daemon"
    wait "$daemon" 2>/dev/null
    daemon=
}
client() { timeout 100 "$fake" "$sock" "$@"; }
gather() { # KEY ACTION...
    k=$1
    shift
    client "$k" gather "$@"
}
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
said() { grep -q -- "$1" "$2"; }
# But spools, of which some stay open.
descriptors() { ls -l "/proc/$daemon/fd" | grep -vc '\.spool'; }
