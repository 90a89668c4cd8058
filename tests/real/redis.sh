#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# redis-server under redis-benchmark, with a snapshot by a forked child and an
# ordered end.  A server of its own: no port, a socket in the work folder.
# Needs: redis-server redis-cli redis-benchmark
# Package: redis-server, redis-tools
# Allocs: 20000
"$UNDER" redis-server --port 0 --unixsocket s --dir . --save '' --io-threads 2 --daemonize no >log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null' EXIT
r() { redis-cli -s s "$@"; }
for ((i = 0; i < 200; i++)); do [ -S s ] && [ "$(r ping 2>&1)" = PONG ] && break; sleep 0.02; done
redis-benchmark -s s -q -n 2000 -c 10 -r 1000 -d 100 -t set,get,lpush,hset --csv | cut -d, -f1
r eval 'for i = 1, 20000 do redis.call("set", "n" .. i, string.rep("v", i % 97)) end return redis.call("strlen", "n500")' 0
r bgsave
for ((i = 0; i < 200; i++)); do r info persistence | grep -q bgsave_in_progress:0 && break; sleep 0.02; done
r info persistence | grep -o 'last_bgsave_status:[a-z]*'
redis-check-rdb dump.rdb >/dev/null 2>&1
echo "check: $?"
r info memory | grep -o 'mem_allocator:[a-z]*'
r flushall
r shutdown nosave
trap - EXIT
wait $server
rc=$?
rm -f log dump.rdb s
exit $rc
