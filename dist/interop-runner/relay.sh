#!/bin/sh
# Runs the relay as moq-interop-runner asks for it.
[ "${MOQT_ROLE:-relay}" = relay ] || {
	echo "MOQT_ROLE: $MOQT_ROLE: must be relay" >&2
	exit 127
}
exec /sluice relay --listen ":${MOQT_PORT:-4443}" --fastpath off \
	--tls-cert "${MOQT_CERT:-/certs/cert.pem}" --tls-key "${MOQT_KEY:-/certs/priv.key}" "$@"
