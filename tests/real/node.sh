#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# node: buffers, worker threads, compression in its thread pool, a child process.
# Needs: node
# Package: nodejs
# Allocs: 50000
cat >main.js <<'EOS'
const { Worker } = require('worker_threads');
const { spawnSync } = require('child_process');
const zlib = require('zlib');
const crypto = require('crypto');
const bufs = [];
for (let i = 0; i < 40000; i++) bufs.push(Buffer.alloc(100 + i % 50, i));
console.log(crypto.createHash('sha256').update(Buffer.concat(bufs)).digest('hex'));
console.log(spawnSync(process.execPath, ['-p', '6 * 7']).stdout.toString().trim());
const code = `const o = {}; for (let i = 0; i < 50000; i++) o['k' + i] = [i];
    require('worker_threads').parentPort.postMessage(Object.keys(o).length + N)`;
const worker = n => new Promise(done => {
    new Worker(code.replace('N', n), { eval: true }).on('message', done);
});
const packed = n => new Promise(done => zlib.gzip(Buffer.alloc(300000, 'ab' + n), (e, b) => done(b.length)));
Promise.all([1, 2, 3, 4].map(worker).concat([5, 6, 7].map(packed))).then(all => {
    console.log(all.join(' '));
    process.exitCode = 5;
});
EOS
"$UNDER" node main.js
