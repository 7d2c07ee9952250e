#!/usr/bin/env bash
# Unpacks the releases of the modules that Sluice patches, at the versions that go.mod requires, checks that they are
# what the file sums says, and applies the patch series beside each. The results, third_party/*/src, are what go.mod's
# replace directives name. Needs go and git. Does nothing if the results are up to date.
set -euo pipefail
cd "$(dirname "$0")"

fail() { echo "third_party: $*" >&2; exit 1; }

apply() { # module directory
	local version stamp release pin sum
	version=$(go mod edit -json ../go.mod | sed -n "\|\"Path\": \"$1\"|{n;s|.*\"Version\": \"\(.*\)\".*|\1|p;q;}")
	pin=$(sed -n "s|^$1 $version ||p" sums)
	[ -n "$pin" ] || fail "sums has no line for $1 $version; add its hash, as go.sum has it in a module without replace"
	stamp="$version $pin $(cat "$2"/*.patch | git hash-object --stdin)"
	[ "$(cat "$2/src/.stamp" 2>/dev/null)" != "$stamp" ] || return 0

	# Outside of the module, because inside it the replace directive would point at src.
	release=$(cd / && GOFLAGS=-mod=mod go mod download -json "$1@$version" | sed -n 's|^	"Dir": "\(.*\)",$|\1|p')
	[ -d "$release" ] || fail "cannot download $1 $version; is the Go module proxy reachable?"
	rm -rf "$2/src"
	cp -R "$release" "$2/src"
	chmod -R u+w "$2/src"
	sum=$(here=$PWD && cd / && GOFLAGS=-trimpath CGO_ENABLED=0 go run "$here/hash.go" "$1@$version" "$here/$2/src")
	[ "$sum" = "$pin" ] || {
		rm -rf "$2/src"
		fail "$1 $version: the files in $release have the hash $sum, and sums says $pin; somebody has changed them:" \
			"go clean -modcache removes them"
	}
	for p in "$2"/*.patch; do
		# The ceiling hides the repository around src, in which git would look for the files.
		GIT_CEILING_DIRECTORIES="$PWD/$2" git -C "$2/src" apply "$PWD/$p" || {
			rm -rf "$2/src"
			fail "$p does not apply to $1 $version"
		}
	done
	echo "$stamp" >"$2/src/.stamp"
}

apply github.com/bluenviron/gortsplib/v5 gortsplib
apply github.com/quic-go/quic-go quic-go
apply github.com/quic-go/webtransport-go webtransport-go
apply github.com/safchain/ethtool ethtool
