#!/usr/bin/env bash
# Unpacks the releases of the modules that Sluice patches, at the versions that go.mod requires, and applies the
# patch series beside each. The results, third_party/*/src, are what go.mod's replace directives name.
# Needs go and git. Does nothing if the results are up to date.
set -euo pipefail
cd "$(dirname "$0")"

apply() { # module directory
	local version stamp release
	version=$(go mod edit -json ../go.mod | sed -n "\|\"Path\": \"$1\"|{n;s|.*\"Version\": \"\(.*\)\".*|\1|p;q;}")
	stamp="$version $(cat "$2"/*.patch | git hash-object --stdin)"
	[ "$(cat "$2/src/.stamp" 2>/dev/null)" != "$stamp" ] || return 0

	# Outside of the module, because inside it the replace directive would point at src.
	release=$(cd / && GOFLAGS=-mod=mod go mod download -json "$1@$version" | sed -n 's|^	"Dir": "\(.*\)",$|\1|p')
	[ -d "$release" ] || { echo "third_party: cannot download $1 $version; is the Go module proxy reachable?" >&2; exit 1; }
	rm -rf "$2/src"
	cp -R "$release" "$2/src"
	chmod -R u+w "$2/src"
	for p in "$2"/*.patch; do
		# The ceiling hides the repository around src, in which git would look for the files.
		GIT_CEILING_DIRECTORIES="$PWD/$2" git -C "$2/src" apply "$PWD/$p" || {
			rm -rf "$2/src"
			echo "third_party: $p does not apply to $1 $version" >&2
			exit 1
		}
	done
	echo "$stamp" >"$2/src/.stamp"
}

apply github.com/quic-go/quic-go quic-go
apply github.com/quic-go/webtransport-go webtransport-go
