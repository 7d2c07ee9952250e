package hub

import (
	"errors"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// This file translates the end or refusal of an upstream subscription for subscribers.

// hasLeft reports whether a publisher left deliberately, without PUBLISH_DONE: it cancelled the request, or ended
// its session without an error. It may come back on another session.
func hasLeft(cause error) bool {
	if reset, ok := errors.AsType[*transport.StreamError](cause); ok {
		return reset.Remote
	}
	ended, ok := errors.AsType[*transport.SessionError](cause)
	return ok && ended.Remote && ended.Code == uint64(moqt.SessionNoError)
}

// isFinal reports whether a publisher has sent PUBLISH_DONE because nothing more comes: the track or the subscription
// has ended, or the publisher is a relay that has lost its own. Then no next subscription fetches what this one missed.
func isFinal(cause error) bool {
	done, ok := errors.AsType[*session.DoneError](cause)
	return ok && (done.Status == moqt.DoneTrackEnded || done.Status == moqt.DoneSubscriptionEnded ||
		done.Status == moqt.DoneInternalError)
}

// doneFor returns the PUBLISH_DONE for subscriptions whose upstream subscription ended.
func doneFor(cause error) (moqt.PublishDoneCode, string) {
	if hasLeft(cause) {
		return moqt.DoneTrackEnded, "the publisher has left"
	}
	done, ok := errors.AsType[*session.DoneError](cause)
	if !ok {
		return moqt.DoneInternalError, "the publisher is gone"
	}
	switch done.Status {
	case moqt.DoneTrackEnded, moqt.DoneSubscriptionEnded:
		return moqt.DoneTrackEnded, done.Reason
	case moqt.DoneMalformedTrack, moqt.DoneExcessiveLoad:
		return done.Status, done.Reason
	}
	return moqt.DoneInternalError, done.Error()
}

// refusalOf returns the error that refuses a request for the reason that would end a subscription with a code.
func refusalOf(code moqt.PublishDoneCode) moqt.RequestErrorCode {
	switch code {
	case moqt.DoneTrackEnded:
		return moqt.RequestDoesNotExist
	case moqt.DoneMalformedTrack:
		return moqt.RequestMalformedTrack
	}
	return moqt.RequestInternalError
}
