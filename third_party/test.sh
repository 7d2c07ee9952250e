#!/usr/bin/env bash
# Runs the tests that quic-go and webtransport-go come with on the patched sources: without hooks nothing may have
# changed, but for what the patches change in these tests. The patches add tests of their own. Takes about a minute on
# two cores. Arguments are passed to go test.
set -euo pipefail
cd "$(dirname "$0")"
./apply.sh
export GOFLAGS= # quic-go's tests look for files beside their sources, whose paths -trimpath would hide

# A few of these tests lose races on a busy machine, with the unpatched releases as well (TestDrainServerAcceptQueue,
# TestOpenStreamSyncShutdown, …). So one package is tested at a time, by make check.
(cd quic-go/src && TIMESCALE_FACTOR=5 go test -p 1 "$@" ./...)
# From here, so that it uses the patched quic-go. Its examples are for an older one.
CI=1 go test -p 1 "$@" github.com/quic-go/webtransport-go github.com/quic-go/webtransport-go/integrationtests
