package rtpframe

import "time"

// Report has a player's reception report about a media (RFC 3550 §6.4.1), and the bytes sent to it meanwhile.
type Report struct {
	At      time.Time
	Highest uint32 // extended highest sequence number that it has received
	Lost    int32  // packets that it has not received, since the beginning

	// Since the beginning, too: bytes sent, and packets that were left out or did not come from the publisher, and
	// their bytes. A player takes the latter for lost, since it sees the gap in the sequence numbers.
	Bytes                  uint64
	Declined, DeclinedSize uint64
}

// Limit chooses how many bytes a second a player gets, by its reports. There is no limit before it loses a tenth of the
// packets: some paths always lose a few. Then it gets a little less than has arrived, and slowly more as long as
// nothing is lost.
type Limit struct {
	rate   int64 // 0: there is none
	last   Report
	begun  bool
	early  int64   // declined packets that were counted before the player could have missed them, as a negative number
	failed float64 // the rate at which packets were lost
	loss   float64 // the share of them, when the limit began
	vain   int     // how often as many were lost since
	until  time.Time
}

// Parts of a second, of packets and of rates.
const (
	reportTime  = time.Second // reports are taken together until they tell of so long a time,
	reportCount = 32          // and so many packets that were sent
	muchLost    = 0.10        // there has to be a limit
	someLost    = 0.02        // the limit is too high
	headroom    = 0.90        // of the rate that has arrived
	half        = 0.5         // of the limit remains, at least
	least       = 0.2         // of the publisher's rate is the lowest limit
	fast, slow  = 1.10, 1.02  // growth with each report; slow near the rate that failed
	near        = 0.15
	enough      = 1.25             // times the publisher's rate: there need not be a limit
	inVain      = 3                // cuts that do not help: packets are lost for another reason
	vainTime    = 60 * time.Second // how long there is no limit then
)

// Rate returns the limit in bytes a second; 0: there is none.
func (l *Limit) Rate() int64 { return l.rate }

// Heed takes a report, and returns the limit.
func (l *Limit) Heed(r Report) int64 {
	elapsed, expected := r.At.Sub(l.last.At), int64(int32(r.Highest-l.last.Highest))
	declined := int64(r.Declined - l.last.Declined)
	switch {
	case !l.begun || expected < 0:
		l.begun, l.last, l.early = true, r, 0
		return l.rate
	case elapsed < reportTime || expected-declined < reportCount:
		return l.rate
	}
	lost := int64(r.Lost) - int64(l.last.Lost) - declined + l.early
	l.early = max(min(lost, 0), -declined)
	lost = max(lost, 0)
	share := float64(lost) / float64(max(expected-declined, lost))
	sent := float64(r.Bytes-l.last.Bytes) / elapsed.Seconds()
	offered := sent + float64(r.DeclinedSize-l.last.DeclinedSize)/elapsed.Seconds()
	l.last = r
	switch {
	case l.rate == 0 && (share <= muchLost || r.At.Before(l.until)):
	case share > someLost:
		l.cut(r.At, sent, offered, share)
	default:
		l.grow(offered)
	}
	return l.rate
}

// Restart has the next report be compared with none before it: the numbers between them do not tell of losses.
func (l *Limit) Restart() { l.begun = false }

// GiveUp ends a limit that does not help. There is none for a while.
func (l *Limit) GiveUp(at time.Time) { l.rate, l.until = 0, at.Add(vainTime) }

// cut makes the limit lower than the rate that has arrived. If as many packets are lost again and again as without the
// limit, they are lost for another reason, and there is none for a while.
func (l *Limit) cut(at time.Time, sent, offered, share float64) {
	switch {
	case l.rate == 0 || share > 2*l.loss:
		l.loss, l.vain = share, 0
	case share > l.loss/2:
		l.vain++
	default:
		l.vain = 0
	}
	if l.vain == inVain {
		l.GiveUp(at)
		return
	}
	arrived := sent * (1 - share)
	if l.rate != 0 { // more may have been allowed than was sent, since frames go whole
		arrived = float64(l.rate) * max(1-share, half)
	}
	l.failed = max(sent, float64(l.rate))
	l.rate = max(int64(arrived*headroom), int64(offered*least), 1)
}

func (l *Limit) grow(offered float64) {
	l.vain = 0
	rate := float64(l.rate)
	if rate > l.failed*(1-near) && rate < l.failed*(1+near) {
		rate *= slow
	} else {
		rate *= fast
	}
	l.rate = int64(rate) + 1
	if rate > offered*enough {
		l.rate = 0
	}
}
