#!/bin/sh
# Runs the tests that moq-interop-runner asks for, by its variables or by flags.
list='' verbose=${VERBOSE:-0} insecure=${TLS_DISABLE_VERIFY:-0}
while [ $# -gt 0 ]; do
	case $1 in
	-r | --relay) RELAY_URL=$2 && shift ;;
	-t | --test) TESTCASE=$2 && shift ;;
	-l | --list) list=--list ;;
	-v | --verbose) verbose=1 ;;
	--tls-disable-verify) insecure=1 ;;
	*) echo "$1: unknown flag" >&2 && exit 2 ;;
	esac
	shift
done
set -- --runner --namespace moq-test/interop $list
case $verbose in 1 | true) set -- "$@" --verbose ;; esac
case $insecure in 1 | true) set -- "$@" --tls-disable-verify ;; esac
exec /sluice-lab conform "$@" --only "${TESTCASE:+^$TESTCASE\$}" "${RELAY_URL:-https://localhost:4443}"
