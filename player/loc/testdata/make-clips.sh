#!/bin/sh
# Makes the clips of this directory: a few frames of each codec, CMAF with one frame in each moof. Run it only to change
# the clips; the result depends on the version of ffmpeg.
set -eu
cd "$(dirname "$0")"

clip() {
	out=$1
	shift
	ffmpeg -hide_banner -loglevel error -y -f lavfi -i testsrc2=size=64x64:rate=25:duration=0.6 \
		-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.6 "$@" \
		-fflags +bitexact -flags:v +bitexact -flags:a +bitexact \
		-movflags +cmaf+separate_moof+skip_trailer -frag_duration 1 "$out"
}
clip avc.mp4 -c:v libx264 -bf 3 -b_strategy 0 -g 10 -threads 1 -c:a aac -b:a 32k
clip hevc.mp4 -c:v libx265 -preset ultrafast -x265-params bframes=3:b-adapt=0:keyint=10:info=0:log-level=none -tag:v hvc1 \
	-c:a libopus -b:a 32k
clip av1.mp4 -c:v libsvtav1 -preset 12 -g 10 -c:a libopus -b:a 32k
clip vp9.mp4 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 10 -c:a libopus -b:a 32k
