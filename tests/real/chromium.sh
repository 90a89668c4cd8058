#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# chromium without a screen: a page with a script, a worker and a canvas is shown
# as text.  It has an allocator of its own; its processes are many.
# Needs: chromium
# Package: chromium
# Allocs: own
export HOME=$PWD DBUS_SESSION_BUS_ADDRESS=disabled: XDG_RUNTIME_DIR=$PWD
cat >page.html <<'EOS'
<!DOCTYPE html><title>t</title><p id=a></p><canvas id=c width=64 height=64></canvas>
<script>
const g = document.getElementById('c').getContext('2d');
g.fillStyle = '#336699';
g.fillRect(0, 0, 64, 64);
const list = Array.from({length: 50000}, (_, i) => 'k' + i * 7 % 1009);
document.getElementById('a').textContent = new Set(list).size + ' ' + g.getImageData(9, 9, 1, 1).data.join();
</script>
EOS
"$UNDER" chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --disable-background-networking --disable-component-update --user-data-dir="$PWD/profile" \
    --virtual-time-budget=2000 --dump-dom "file://$PWD/page.html" 2>log
rc=$?
find . -mindepth 1 -maxdepth 1 ! -name page.html -exec rm -rf {} +
exit $rc
