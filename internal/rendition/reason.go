package rendition

// Reason is why a rendition was left for another.
type Reason uint8

// Reasons.
const (
	Late    Reason = iota + 1 // media came late
	Better                    // media has come in time for a while, so that a better one is tried
	Stuck                     // nothing came of it
	Ended                     // it has ended
	Decoder                   // the player does not decode it in time
	Display                   // it has more pixels than the player shows
)

var reasonNames = [...]string{
	"none", Late: "late", Better: "better", Stuck: "stuck", Ended: "ended", Decoder: "decoder", Display: "display",
}

func (r Reason) String() string { return reasonNames[r] }
