package track

// Limits on what a publisher can make grow: see the table in the package comment.
const (
	// maxAhead is how many bytes of a track's streams wait for the active streams of their subgroups: a large object of
	// video, or seconds of video.
	maxAhead = 32 << 20

	// maxWaiting is how many streams of a subgroup wait for the active one: more than a track has publishers, and few
	// enough to look at each whenever one of them ends.
	maxWaiting = 16

	// maxRuns is how many runs of consecutive ids a set of ids has. The ids of a whole group are one run, or as many as
	// it has subgroups that have not begun to come. Each run takes 16 bytes, and a new one moves all others at worst.
	maxRuns = 4096

	// keptRuns is maxRuns while the cache has no room: enough for the ids that arrive at the moment.
	keptRuns = 64

	// maxSegments is how many segments a group holds, and maxSubgroups how many subgroups it remembers: more than a
	// minute of video whose objects have a subgroup each. A look-up in a group visits all segments at worst.
	maxSegments  = 4096
	maxSubgroups = 4096

	// maxDatagrams is how many objects in datagrams a group holds: minutes of audio in a group that never ends.
	maxDatagrams = 16384

	// maxGroups is how many groups a track holds or remembers: ten minutes of audio with a group for each frame. Adding
	// a group moves the larger ids.
	maxGroups = 32768

	// keptGroups is how many groups a track remembers while the cache has no room, and the lowest one is in use.
	keptGroups = 64

	// maxFetched is how many subgroups of a FETCH response are in arrival at the same time. More are taken in, in more
	// segments.
	maxFetched = 64
)
