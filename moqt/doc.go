// Package moqt encodes and decodes the wire format of Media over QUIC Transport (draft-ietf-moq-transport).
package moqt
