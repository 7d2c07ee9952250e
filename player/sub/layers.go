package sub

import (
	"errors"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// layersTimeout is how long the first frame of another layer may take when a key frame has come.
const layersTimeout = time.Second

// errLayers is why a subscription to a track in layers ended if the track with whole groups goes on.
var errLayers = errors.New("no layers")

// layers tells whether the layers of video arrive, which have subgroups of their own. Some relays refuse more than one
// subgroup of a group, or drop it silently. The player's mutex guards it. nil: the track has whole groups.
type layers struct {
	arrive  bool          // an object of another layer than the key frames' has come
	timer   *time.Timer   // runs when a key frame has come; nil before
	missing chan struct{} // closed when they have not come in time
}

// lost returns a channel that is closed when the layers have not come in time.
func (l *layers) lost() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.missing
}

func (l *layers) arrivedLocked(subgroup uint64) {
	if l != nil && subgroup > 0 {
		l.arrive = true
	}
}

// lacksLayers reports whether a track has ended, or was refused, for a reason that another one may not have.
func lacksLayers(err error) bool {
	if done, ok := errors.AsType[*session.DoneError](err); ok {
		switch done.Status {
		case moqt.DoneTrackEnded, moqt.DoneSubscriptionEnded, moqt.DoneGoingAway:
			return false
		}
		return true
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return ok && refused.RetryInterval == 0 && refused.Code.Effective() != moqt.RequestTimeout
}
