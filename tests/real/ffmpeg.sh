#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ffmpeg: a made-up film is filtered and encoded by several threads, then read again.
# Needs: ffmpeg
# Package: ffmpeg
# Allocs: 3000
ff=(ffmpeg -nostdin -hide_banner -v error -y)
"$UNDER" "${ff[@]}" -filter_threads 2 -f lavfi -i testsrc=duration=2:size=320x240:rate=25 -f lavfi -i sine=duration=2 \
    -vf scale=400:300,hue=h=40 -c:v mpeg4 -threads 4 -c:a aac -flags +bitexact -fflags +bitexact film.mkv
echo "made: $?"
"$UNDER" "${ff[@]}" -threads 4 -i film.mkv -f framemd5 - | grep -v '^#' | cksum
"$UNDER" "${ff[@]}" -i nothing.mkv -f null - 2>&1
