package fetch

import (
	"context"
	"iter"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
)

// Hub is the track that a request is about, as far as the peer that asks may have it.
type Hub interface {
	// Description returns the track's properties, as a publisher has told them last, and the last location that FETCH
	// responses covered, or nil.
	Description() (moqt.Properties, *moqt.Location)
	// Covers reports whether it is known if objects up to a location have been published.
	Covers(moqt.Location) bool
	// MayArrive reports whether an object may still come by subscription.
	MayArrive(*track.Track, moqt.Location) bool
	// MayGrow reports whether larger objects may be on their way, as the peer that asks may know.
	MayGrow() bool
	// Learn asks publishers for the Largest Object, unless that is known.
	Learn(context.Context) *moqt.RequestError
	// Sources yields the publishers to ask, each once. It waits for those that may come soon.
	Sources(context.Context, *Budget) iter.Seq[Source]
	// Begin enters a request, and returns what to call when it has ended. Until then, Abort may be called.
	Begin(*Fetch) (end func())
}

// Source is a publisher.
type Source struct {
	Session *session.Session
	Payers  charge.Payers // pay for what the publisher sends
	Track   moqt.FullTrackName
	// Begin enters a request at the publisher, and returns what to call when it is over. Until then, it may be
	// cancelled.
	Begin func(*session.Fetch) (end func())
	// Accepted records a FETCH_OK, and how far the response reaches.
	Accepted func(data *track.Track, ok *moqt.FetchOK, end moqt.Location)
	// Malformed is called when objects break the rules of tracks.
	Malformed func(error)
}

// PassOn returns the error that peers get if a publisher has refused a request. They decide about retries, and a
// redirect names tracks, not hosts, as publishers are clients (draft §10.6.1).
func PassOn(e *moqt.RequestError) *moqt.RequestError {
	switch e.Code {
	case moqt.RequestDoesNotExist, moqt.RequestTimeout, moqt.RequestInvalidRange, moqt.RequestExcessiveLoad,
		moqt.RequestUnsupportedExtension, moqt.RequestMalformedTrack, moqt.RequestRedirect, moqt.RequestNotSupported:
		return e
	}
	return &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "the publisher refused: " + e.Error()}
}
