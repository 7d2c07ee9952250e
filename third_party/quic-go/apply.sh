#!/usr/bin/env bash
# Unpacks the quic-go release that go.mod requires and applies the patch series to it.
# The result, third_party/quic-go/src, is what go.mod's replace directive names.
set -euo pipefail
cd "$(dirname "$0")"

version=$(go mod edit -json | sed -n "/quic-go\/quic-go\"/{n;s/.*\"Version\": \"\(.*\)\".*/\1/p;q}")
stamp="$version $(cat ./*.patch | sha256sum | cut -d' ' -f1)"
[ "$(cat src/.stamp 2>/dev/null)" = "$stamp" ] && exit 0

# Outside the module, because inside it the replace directive would point at src.
release=$(cd / && GOFLAGS=-mod=mod go mod download -json "github.com/quic-go/quic-go@$version" | sed -n 's|^\t"Dir": "\(.*\)",$|\1|p')
rm -rf src
cp -R "$release" src
chmod -R u+w src
for p in ./*.patch; do
	patch --quiet --directory=src --strip=1 --fuzz=0 <"$p" || {
		echo "third_party/quic-go: $p does not apply to quic-go $version" >&2
		rm -rf src
		exit 1
	}
done
echo "$stamp" >src/.stamp
