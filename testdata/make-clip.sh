#!/bin/sh
# Makes clip.mp4, the sample clip: 10 s of ffmpeg's test picture and a 440 Hz tone, H.264 and AAC, CMAF with one frame in
# each moof. Run it only to change the clip; the result depends on the version of ffmpeg.
set -eu
cd "$(dirname "$0")"
whole=$(mktemp -d)
trap 'rm -rf "$whole"' EXIT

# A key frame every 2 s and no B-frames, as a live encoder would send.
ffmpeg -hide_banner -loglevel error -y \
	-f lavfi -i testsrc2=size=640x360:rate=25:duration=10 \
	-f lavfi -i sine=frequency=440:sample_rate=48000:duration=10 \
	-c:v libx264 -profile:v main -preset slow -crf 30 -g 50 -keyint_min 50 -sc_threshold 0 -bf 0 -pix_fmt yuv420p \
	-c:a aac -b:a 64k -ac 2 \
	-fflags +bitexact -flags:v +bitexact -flags:a +bitexact "$whole/whole.mp4"

# Not frag_every_frame: with two frames of one track in a row ffmpeg 5.1 writes durations of zero then.
ffmpeg -hide_banner -loglevel error -y -i "$whole/whole.mp4" -c copy -fflags +bitexact \
	-movflags +cmaf+separate_moof+skip_trailer -frag_duration 1 clip.mp4
