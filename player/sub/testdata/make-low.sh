#!/bin/sh
# Makes low.mp4: the video of the sample clip as a rendition of 90 lines, with key frames at the same times. Run it only
# to change the clip; the result depends on the version of ffmpeg.
set -eu
cd "$(dirname "$0")"
ffmpeg -hide_banner -loglevel error -y -i ../../../testdata/clip.mp4 -map 0:v -vf scale=160:90 \
	-c:v libx264 -preset veryslow -profile:v main -bf 0 -g 50 -keyint_min 50 -sc_threshold 0 \
	-b:v 24k -maxrate 24k -bufsize 48k -fflags +bitexact -flags:v +bitexact \
	-movflags +cmaf+separate_moof+skip_trailer -frag_duration 1 low.mp4
