#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# systemd_inside.sh - run by tests/full/systemd.test as root in a booted system:
# does one thing after the other to heaplined.service and writes what it saw, a
# line "name value" each.
fake=/usr/local/bin/fake_client sock=/run/heapline/collector.sock
conf=/etc/heapline/heaplined.conf dropins=/run/systemd/system/heaplined.service.d
mkdir -p /tmp/inside /etc/heapline "$dropins"
cd /tmp/inside || exit 1
tell() { echo "$*"; }
show() { systemctl show heaplined.service -p "$1" --value; }
as_user() { setpriv --reuid 1234 --regid 1234 --clear-groups timeout 60 "$fake" "$sock" "$@"; }
until_true() {
    for _ in $(seq 400); do
        "$@" && return 0
        sleep 0.05
    done
    return 1
}
shows() { [ "$(show "$1")" = "$2" ]; }
said() { grep -q "$1" "$2"; }
journal() { journalctl --no-pager -u heaplined.service "$@"; }
journal_says() { journal | grep -q "$1"; }
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" | head -n 1; }
play() { # NAME ACTION...
    [ -p "go.$1" ] || mkfifo "go.$1"
    as_user "$@" <"go.$1" >"out.$1" 2>&1 &
    player=$!
}

# ---- activation ----
systemd-sysusers
systemd-tmpfiles --create
systemctl start heaplined.socket
tell socket_mode "$(stat -c %a "$sock") $(stat -c %a "${sock%/*}")"
tell before_first "$(systemctl is-active heaplined.service)"
as_user first frames rows=3 ack >out.first 2>&1
tell first "$(tail -n 1 out.first)"
tell after_first "$(systemctl is-active heaplined.service) $(show Type)"
tell user "$(stat -c %U "/proc/$(show MainPID)") $(stat -c '%U %a' /var/spool/heapline)"
tell capabilities "$(sed -n 's/^CapEff:\t//p' "/proc/$(show MainPID)/status")"
until_true shows StatusText "listening"
tell status "$(show StatusText)"

# ---- the store ----
play one page=10,4,600,900 heap frames rows=20 ack hold=5 say=there wait page=12,4,600,901 hold=2 kill=9
exec 5>go.one
until_true said there out.one
until_true shows NFileDescriptorStore 2
tell stored "$(show NFileDescriptorStore)"
pid=$(show MainPID)
systemctl kill -s KILL heaplined.service
until_true as_user x gather >/dev/null 2>&1
tell new_process "$([ "$(show MainPID)" != "$pid" ] && echo yes) restarts $(show NRestarts)"
tell after_kill "$(as_user one gather index=0 | field ended)"
systemctl restart heaplined.service
tell after_restart "$(as_user one gather index=0 | field ended) $(show NFileDescriptorStore)"
tell memory "$(as_user one gather index=0 | field vmhwm)"
kill -STOP "$(show MainPID)" # it cannot see the end before it is killed itself
echo >&5
exec 5>&-
wait "$player"
systemctl kill -s KILL heaplined.service
as_user one gather index=20000 pull=0 >out.gather
tell killed "$(field rows <out.gather) $(field allocs <out.gather) $(field frees <out.gather)" \
    "$(field peak <out.gather) $(field ended <out.gather)"
tell rows "$(sed -n 's/^stream //p' out.gather)"
until_true shows NFileDescriptorStore 0
tell let_go "$(show NFileDescriptorStore)"

# ---- restarts while clients stream ----
for i in 1 2 3; do
    HEAPLINE_JOB=stream$i HEAPLINE_SOCKET=$sock setpriv --reuid 1234 --regid 1234 \
        --clear-groups timeout 60 /usr/local/bin/stream_frames 300 5 >"stream.$i" 2>&1 &
    players="$players $!"
done
for how in restart kill restart kill; do
    sleep 0.3
    if [ $how = restart ]; then
        systemctl restart heaplined.service
    else
        systemctl kill -s KILL heaplined.service
    fi
done
for p in $players; do wait "$p" || tell stream_failed "$p"; done
for i in 1 2 3; do
    as_user stream$i gather index=20000 pull=0 >out.stream$i
    tell stream$i "$(field rows <out.stream$i) lost $(field lost <out.stream$i)" \
        "dropped $(field dropped <out.stream$i) $(sed -n 's/^stream \(.*\) in_order.*/\1/p' out.stream$i)"
done

# ---- reload ----
config=$(/usr/local/sbin/heaplined --help | sed -n 's/.*(default \(.*\))$/\1/p')
tell config "$config"
conf=$config
mkdir -p "${conf%/*}"
echo 'max_jobs_per_uid = 100' >"$conf"
systemctl reload heaplined.service
until_true shows StatusText "configuration read again"
tell reload "$(show StatusText), $(show ActiveState)"
echo 'max_jobs_per_uid = several' >"$conf"
systemctl reload heaplined.service
status_is_old() { show StatusText | grep -q 'old configuration in force.*several'; }
until_true status_is_old
tell bad_reload "$(show StatusText), $(show ActiveState)"
until_true journal_says 'the new configuration is not used, the old one stays: .*:1: max_jobs_per_uid = several'
tell bad_reload_journal $?
tell still_serves "$(as_user one gather state | field processes)"

# ---- a configuration that no restart cures ----
systemctl restart heaplined.service
until_true shows ActiveState failed
tell bad_start "$(show ActiveState) $(show Result) $(show ExecMainStatus) restarts $(show NRestarts)"
rm "$conf"
systemctl reset-failed heaplined.service heaplined.socket
systemctl start heaplined.socket heaplined.service
tell cured "$(show ActiveState)"

# ---- watchdog ----
printf '[Service]\nWatchdogSec=1\n' >"$dropins/test.conf"
systemctl daemon-reload
systemctl restart heaplined.service
pid=$(show MainPID)
kill -STOP "$pid"
until_true journal_says 'Watchdog timeout'
tell watchdog $?
new_one() { [ "$(show ActiveState)" = active ] && [ "$(show MainPID)" != "$pid" ]; }
until_true new_one
tell after_watchdog "$(show ActiveState) restarts $(show NRestarts)"
jobs_in_status() { show StatusText | grep -q 'jobs, .* processes alive'; }
until_true jobs_in_status
tell status_in_work "$(show StatusText | sed 's/[0-9]* jobs/N jobs/')"
rm "$dropins/test.conf"
systemctl daemon-reload

# ---- journal, stop ----
as_user noseal noseal heap refused >out.noseal 2>&1
tell refused "$(grep -c 'not a memfd' out.noseal)"
fields() { journal -o json | grep 'refused process' | grep -c '"HEAPLINE_UID":"1234"'; }
has_fields() { [ "$(fields)" -gt 0 ]; }
until_true has_fields
tell journal_uid $?
tell journal_pid "$(journal -o json | grep 'refused process' | grep -c '"HEAPLINE_PID":"[0-9]')"
tell journal_job "$(journal -o json | grep 'job one of uid' | grep -c '"HEAPLINE_JOB":"one"' | sed 's/^[1-9].*/some/')"
play last page=1,0,1,1 heap frames rows=50 ack say=there wait
exec 5>go.last
until_true said there out.last
printf '[Service]\nTimeoutStopSec=10\n' >"$dropins/test.conf"
systemctl daemon-reload
systemctl stop heaplined.service
tell stop "$(show Result) $(show ExecMainCode) $(show ExecMainStatus)"
tell socket_stays "$(systemctl is-active heaplined.socket) $(stat -c %F "$sock")"
tell sandbox "$(journal | grep -ciE 'SIGSYS|seccomp|status=31')"
exec 5>&-
exit 0
