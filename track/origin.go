package track

import "sync/atomic"

// Origin is a publisher's stream whose bytes a log has from an offset on. A log begins with one, and gets another one
// when a stream goes on with it in the place of the first. Then the first object of that stream is written anew, as its
// id is relative to another object, and what follows are the bytes of the stream.
type Origin struct {
	Owner any   // of the [Source]; nil if it has none, or the log was assembled from objects
	From  int64 // log offset
	Delta int64 // log offset minus offset in the stream

	severed atomic.Int64 // -1: it is not
}

// Severed returns the log offset at which the stream has broken off. The bytes after it, if they come, are bytes of
// other streams, and may differ from those of this one. It reports false while the log goes on with the stream. Load
// End before: what End covers then is before the offset that Severed returns, or Severed returns it.
func (o *Origin) Severed() (off int64, ok bool) {
	off = o.severed.Load()
	return off, off >= 0
}
