// Package track keeps the bytes of tracks as append-only logs, indexes them by group, subgroup and object, and caches
// them.
//
// # Logs
//
// A [Log] holds the bytes of one subgroup stream as its publisher sent them, from the end of SUBGROUP_HEADER on. Log
// offsets are the offsets in the publisher's QUIC stream. One goroutine writes; any number of [Reader]s read at the
// same time, without a lock and without a copy:
//
//	     released     readable                  in memory, not yet visible
//	   ░░░░░░░░░░░░░┌──────────────┬───────────┬────────────┐
//	                │   object 7   │ object 8  │ object 9 … │◀── Fill, Append
//	   ░░░░░░░░░░░░░└──────────────┴───────────┴────────────┘
//	                ▲      ▲                   ▲            ▲
//	low-water mark ─┘      └─ a Reader        End        Written
//
// Memory comes in chunks and is released from the front, as soon as neither a Reader nor retention needs it. A Reader's
// [Waker] is told when End moves or the log ends. The log indexes its objects by id and by offset ([Object]), at 16
// bytes each.
//
// # Tracks, groups and segments
//
// A [Track] has groups, a group has [Segment]s and [Datagram]s. A segment is a run of objects of one subgroup in one
// log: a subgroup is one segment, unless its stream was reset and later objects came on another. The track knows of
// each object that it is held, that it does not exist, or nothing ([Existence]); [Track.At] tells FETCH which. It also
// checks what publishers say about groups and objects: contradictions make a track malformed (draft §2.4.2), and are
// returned as *moqt.MalformedTrackError.
//
// # How the streams of several publishers are merged
//
// A [Source] takes in one stream of a publisher. The streams that bring the same subgroup, from several publishers or
// after a reset, meet in the subgroup's merge. One of them is active: its objects go to the subscribers. The others
// wait, and each of their objects is compared with the same object of the active stream.
//
//	publisher 1 ──▶ Source ──▶ active   ──────────────────▶ segment ──▶ subscribers, cache
//	publisher 2 ──▶ Source ──▶ waiting: compared, until the active one ends without FIN or stalls
//
// If an active stream brings only new objects, its own log is the segment ("verbatim"): no byte is copied, and log
// offsets stay the offsets of the publisher's stream. Otherwise its new objects are copied to a log that is made for
// the segment. When the active stream is reset, or sends nothing for half a second while another is ahead of it, the
// first waiting one becomes active and goes on where the segment ends, in the middle of an object if need be.
//
// Behind the first object that a stream adds to such a log, its bytes stay as they are, until an object of it is not
// for the segment: the log has an [Origin] then.
//
// A waiting stream that breaks off is kept until then, too, if it is ahead: nobody else may bring its objects.
//
// If none waits when a publisher resets the active stream, the segment is reset, too. If the stream breaks off for
// another reason ([Source.Cut]), the segment is cut: the next stream of the subgroup goes on with it in the same way.
// It is reset if none comes within CacheConfig.Grace; or within half a second, if there is a later group.
//
// # Derived segments
//
// [Segment.Derive] returns a segment in another [Form]: with those objects that pass Range Filters, or in the data
// layout of another version. Its log is written on the goroutine that writes the log that it is derived from, and
// shared by all subscribers that want the same. It is kept while it is read, as long as its group is. All other logs
// have one layout: what a publisher sends in another one is translated before.
//
// # The cache
//
// A [Cache] keeps the objects of all tracks within limits of age and size ([CacheConfig]). It evicts whole groups,
// oldest first, and never while they are read or written. The track remembers evicted objects for a while, so that a
// late publisher's copies are not forwarded again. A [FetchWriter] adds the objects of a FETCH response, for later
// FETCHes only. A new subscriber begins at a [Position], which keeps what comes after it.
//
// # Limits
//
// Publishers decide how many streams, groups and objects they send, and with which ids. All that grows with it counts
// as memory of the cache. It ends at a limit, and yields when the cache is full:
//
//	what grows                              limit                 beyond it              when the cache is full
//	──────────────────────────────────────────────────────────────────────────────────────────────────────────────
//	bytes and index of objects              CacheConfig.Duration  evicted                evicted: whole groups, then
//	                                                                                     unread bytes of others
//	groups of a track                       maxGroups             the lowest go          forgotten, if evicted: the
//	                                                                                     lowest, more than keptGroups
//	segments of a group                     maxSegments           the lowest go          as their bytes
//	datagrams of a group                    maxDatagrams          the lowest go          as their bytes
//	subgroups of a group                    maxSubgroups          the lowest forgotten   forgotten with their group
//	ids in a group that came, or do not     maxRuns, each set     the lowest forgotten   keptRuns remain
//	    exist; ids of groups that do not
//	streams of a subgroup that wait         maxWaiting            the stream is refused
//	bytes of such streams of a track        maxAhead              the stream is refused  the streams are refused
//	segments open in a FETCH response       maxFetched            the first one ends
//	segments derived from another one       maxDerived, each kind unread ones go
//
// What a reader or a stream in arrival uses stays. The transport limits the number of streams, and the media sender how
// far readers are behind. No limit makes a track malformed: the draft allows sparse and small groups.
//
// # Locks
//
// Locks are taken in this order; a lock may be taken while any of those before it are held:
//
//	Cache.sweeping   one sweep at a time
//	merge.mu         the streams of one subgroup, and the segment that they write to
//	Track.deriving   one goroutine at a time derives segments
//	derived.mu       the copying to one derived segment
//	Track.mu         the index, its groups and subgroups
//	Cache.mu         the list of all groups
//	Log.mu           chunks, readers and object index of one log
//
// The callback for new segments is called with merge.mu held; Wakers are called with no lock of the log's held. Those
// of a derived log are called with derived.mu held, and may derive other segments: Derive takes that lock of a new one
// only, which has no Waker yet. A function whose name ends in Locked expects the lock that its comment names. All
// methods of index, group and subgroup expect Track.mu, and methods of input expect merge.mu, unless their comments say
// otherwise.
package track
