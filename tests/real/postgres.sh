#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# postgres: initdb, a server, a small pgbench with eight clients, an ordered end.
# A server of its own: no port, a socket in the work folder, not as root.
# Needs: setpriv
# Package: postgresql
# Allocs: 20000
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$bin/initdb" ] && [ -x "$bin/pgbench" ] || { echo "postgresql is not installed"; exit 77; }
as=()
if [ "$(id -u)" = 0 ]; then
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${as[@]}" test -x . || { echo "the work folder is closed to other users"; exit 77; }
    install -d -o 65534 -g 65534 data sock
else
    mkdir data sock
fi
[ ${#PWD} -lt 80 ] || { echo "TMPDIR is too long for a socket's name"; exit 77; }
export HOME=$PWD PGHOST=$PWD/sock PGUSER=pg PGDATABASE=postgres PGDATA=$PWD/data LC_ALL=C
unset PGPORT
"${as[@]}" "$UNDER" "$bin/initdb" -U pg -A trust -N --no-instructions >log 2>&1
echo "initdb: $?"
"${as[@]}" "$UNDER" "$bin/postgres" -k "$PGHOST" -c listen_addresses= -c fsync=off >>log 2>&1 &
server=$!
trap 'kill -INT $server 2>/dev/null' EXIT
for ((i = 0; i < 200; i++)); do "$bin/pg_isready" -q && break; sleep 0.05; done
"$UNDER" "$bin/pgbench" -i -q -s 1 >>log 2>&1
echo "pgbench -i: $?"
"$UNDER" "$bin/pgbench" -n -c 8 -j 2 -t 10 2>&1 | grep -E 'processed|failed'
"$UNDER" "$bin/psql" -XAtq <<'EOS' 2>&1
SELECT count(*), sum(abalance) = (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts;
SELECT count(*), sum(hashtext(md5(g::text))) FROM generate_series(1, 20000) g;
SELECT 1 / 0;
EOS
kill -INT $server
trap - EXIT
wait $server
rc=$?
grep -cE 'PANIC|terminated by signal' log
rm -rf data sock log
exit $rc
