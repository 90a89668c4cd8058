#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash: many forked children, pipes, background jobs, and one that a signal ends.
# Needs: bash
# Package: bash
# Allocs: 5000
cat >s.bash <<'EOS'
for ((i = 0; i < 40; i++)); do
    a+=($(printf '%s\n' "$i" x | tr x y))
    (exit $((i % 5))) || e=$((e + $?))
done
echo "${a[@]}" "$e"
for i in 1 2 3; do (exit "$i") & done
wait
declare -A m
for ((i = 0; i < 5000; i++)); do m[$i]=$i$i; done
echo "${#m[@]}"
cat <<<"here" | { read -r x; echo "$x"; }
bash -c 'kill -TERM $$'
exit $(($? - 100))
EOS
"$UNDER" bash s.bash
