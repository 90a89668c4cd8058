#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ImageMagick: pictures are made, turned, blurred and compared, with its threads.
# Needs: convert-im6.q16
# Package: imagemagick
# Allocs: 1000
export HOME=$PWD MAGICK_THREAD_LIMIT=4
"$UNDER" convert-im6.q16 -size 500x400 plasma:red-blue -seed 5 +noise Gaussian -strip one.ppm
"$UNDER" convert-im6.q16 -size 500x400 gradient:red-blue -rotate 30 -blur 0x3 -resize 60% -strip two.png
"$UNDER" identify-im6.q16 -format '%w %h %#\n' two.png
"$UNDER" convert-im6.q16 two.png -colors 32 -negate -depth 8 ppm:- | cksum
rm -f one.ppm two.png # a picture of chance; a picture that holds times
"$UNDER" convert-im6.q16 nothing.png out.png 2>&1 | sed 's/@.*//'
exit "${PIPESTATUS[0]}"
