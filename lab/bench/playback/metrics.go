package playback

import "sluice/lab/bench/result"

// Whether less or more of a metric is better.
const (
	less = -1
	more = 1
)

// Age is the name of the distribution of ages.
const Age = "age"

// Metrics describes the metrics that AddTo adds. Of Age, the quantiles are metrics, too.
var Metrics = map[string]result.Metric{
	"goodput":  {Title: "media that arrived in time", Unit: "Mbit/s", Better: more},
	"playable": {Title: "frames that could be shown in time", Unit: "%", Better: more},
	"keys":     {Title: "key frames that arrived in time", Unit: "%", Better: more},
	"audio":    {Title: "audio frames that arrived in time", Unit: "%", Better: more},
	"stalls":   {Title: "stalls", Better: less},
	"stalled":  {Title: "time in stalls", Unit: "s", Better: less},
	"fit": {Title: "pictures shown at the best rendition that fits, once that is known", Unit: "%",
		Better: more},
	"switches": {Title: "changes of the rendition, once it is known which one fits", Better: less},
	Age:        {Title: "age of frames on arrival", Unit: "ms", Better: less},
	"usable":   {Title: "age of frames when all that they need has arrived, p90", Unit: "ms", Better: less},
}
