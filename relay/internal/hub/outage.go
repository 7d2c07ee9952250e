package hub

import (
	"time"

	"sluice/moqt"
)

// outage is the time in which no publisher brings a track that has subscribers. All methods expect Hub.mu to be held.
type outage struct {
	hub     *Hub
	failure *moqt.RequestError // the last refusal of a publisher, if none has accepted since
	grace   *time.Timer        // runs while subscribers wait for a publisher to come back
}

// begin ends the subscriptions, or gives the publisher time to come back, whose subscription has ended.
func (o *outage) begin(cause error) {
	code, reason := doneFor(cause)
	switch {
	case code == moqt.DoneTrackEnded && !hasLeft(cause) && o.hub.publishers.refills == 0:
		o.giveUp(code, reason, nil)
	case code == moqt.DoneMalformedTrack:
		reset := moqt.ResetMalformedTrack
		o.giveUp(code, reason, &reset)
	default:
		stopTimer(&o.grace)
		o.await(code, reason)
	}
}

// await ends the subscriptions after Config.Grace, if there is no publisher by then, none may accept soon, and nothing
// that was missed comes.
func (o *outage) await(code moqt.PublishDoneCode, reason string) {
	o.grace = o.hub.after(o.hub.directory.Grace, func() {
		s := &o.hub.publishers
		pending := o.hub.choice.connecting || some(s.all(), (*upstream).isPending)
		switch {
		case s.areEstablished():
		case pending && len(o.hub.subscribers.all) > 0, s.refills > 0:
			o.await(code, reason)
		default:
			o.giveUp(code, reason, nil)
		}
	})
}

// giveUp ends the subscriptions.
func (o *outage) giveUp(code moqt.PublishDoneCode, reason string, reset *moqt.StreamResetCode) {
	o.hub.subscribers.endAll(code, reason, reset)
	stopTimer(&o.grace)
	o.hub.configureLocked()
}

// end is called when a publisher has accepted.
func (o *outage) end() {
	o.failure = nil
	stopTimer(&o.grace)
}
