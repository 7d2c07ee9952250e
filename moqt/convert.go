package moqt

// convertProperties writes properties again, with the numbers of another format. Immutable Properties are a list of
// pairs too, so their numbers change as well, and nothing else. The error is ErrIncomplete if p ends within a pair, a
// MalformedTrackError or a ProtocolError if p cannot be parsed, and another one if a number of p does not exist in the
// other format.
func convertProperties(p []byte, from, to varintFormat) (Properties, error) {
	return convertPairs(p, from, to, false)
}

// convertPairs converts a list of pairs, which immutable says is in Immutable Properties.
func convertPairs(p []byte, from, to varintFormat, immutable bool) (converted Properties, err error) {
	for prev := uint64(0); len(p) > 0; {
		pair, n, err := from.parsePair(p, prev)
		if err == ErrIncomplete && immutable {
			err = malformed("immutable properties end within a key-value-pair")
		}
		if err != nil {
			return nil, err
		}
		if pair.Type == PropertyImmutable && !immutable { // within itself, it makes the track malformed anyway
			if pair.Bytes, err = convertPairs(pair.Bytes, from, to, true); err != nil {
				return nil, err
			}
			if len(pair.Bytes) > MaxValueLen {
				return nil, malformed("immutable properties are too long in another version")
			}
		}
		if converted, err = to.appendPair(converted, prev, pair); err != nil {
			return nil, err
		}
		p, prev = p[n:], pair.Type
	}
	return converted, nil
}
