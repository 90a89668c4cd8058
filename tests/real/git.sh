#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# git: add, commit, merge, repack, grep with threads, fsck, and a command that fails.
# Needs: git
# Package: git
# Allocs: 2000
export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
    GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main tree && cd tree || exit 99
git config gc.auto 0
git config pack.threads 1 # several find other deltas each time
for ((i = 0; i < 150; i++)); do seq "$i" $((i * 7 + 300)) >"n$i"; done
"$UNDER" git add .
"$UNDER" git commit -q -m first
git checkout -q -b side
seq 5 >n3
"$UNDER" git commit -q -a -m second
git checkout -q main
seq 9 >n4
git commit -q -a -m third
"$UNDER" git merge -q -m merged side
"$UNDER" git repack -a -d -q
"$UNDER" git grep --threads=4 -c 39 main -- "n1*" | cksum
"$UNDER" git fsck --full --strict
"$UNDER" git log --format='%H %s' --stat
rm -f .git/index # it holds times
"$UNDER" git rev-parse --verify nothing-of-that-name
