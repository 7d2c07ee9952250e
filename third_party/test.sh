#!/usr/bin/env bash
# Runs the tests that quic-go and webtransport-go come with on the patched sources: without hooks nothing may have
# changed, but for what the patches change in these tests. The patches add tests of their own. Takes about a minute on
# two cores. Arguments are passed to go test.
set -euo pipefail
cd "$(dirname "$0")"
./apply.sh
export GOFLAGS= # quic-go's tests look for files beside their sources, whose paths -trimpath would hide

# A few of these tests lose races on a busy machine, with the unpatched releases as well (TestDrainServerAcceptQueue,
# TestOpenStreamSyncShutdown, …). So there are three tries; go test remembers which packages have passed.
tries() { "$@" || "$@" || "$@"; }

(cd quic-go/src && TIMESCALE_FACTOR=5 tries go test "$@" ./...)
# From here, so that it uses the patched quic-go. Its examples are for an older one.
CI=1 tries go test "$@" github.com/quic-go/webtransport-go github.com/quic-go/webtransport-go/integrationtests
