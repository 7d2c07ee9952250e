package fastpath

import (
	"sync/atomic"

	"sluice/fastpath/bpf"
)

// The kinds of entries that publishers have shares of, see bpf/shared/share.h.
const (
	shareSubgroups = bpf.IngressShareKindSHARE_SUBGROUPS
	shareObjects   = bpf.IngressShareKindSHARE_OBJECTS
	shareJobs      = bpf.IngressShareKindSHARE_JOBS
)

// shares counts the entries that exist because of publishers. The programs count theirs in the same memory. Medias of
// RTP that come from one address count as a publisher, in shares of their own: only they have jobs.
type shares struct {
	own   []bpf.Held // by publisher
	all   []bpf.Held // one element
	sizes [bpf.IngressShareKindSHARE_KINDS]uint32
	since []atomic.Uint64 // by publisher: when the last one with the index had gone, see monotonic
}

// reset begins anew for an index that another connection is going to have.
func (s *shares) reset(publisher uint32) {
	s.own[publisher] = bpf.Held{}
	s.since[publisher].Store(monotonic())
}

// releaseJob counts a job as done. A worker that was stuck may do so when its publisher has gone.
func (s *shares) releaseJob(j *bpf.Job) {
	s.release(j.Share, shareJobs, precedes(j.Since, s.since[j.Share].Load()))
}

// within reports whether a publisher that holds own of all the entries may have one more: as many as are free.
func within(own, all, size uint32) bool { return all < size && own < size-all }

// mayHold reports whether a publisher may have one more entry.
func (s *shares) mayHold(publisher uint32, kind bpf.IngressShareKind) bool {
	own, all := s.counters(publisher, kind)
	return within(atomic.LoadUint32(own), atomic.LoadUint32(all), s.sizes[kind])
}

// hold counts an entry that was made for a publisher.
func (s *shares) hold(publisher uint32, kind bpf.IngressShareKind) {
	own, all := s.counters(publisher, kind)
	atomic.AddUint32(own, 1)
	atomic.AddUint32(all, 1)
}

// release counts an entry that was removed. ofOther says that the publisher has ended, and that another connection may
// have its index.
func (s *shares) release(publisher uint32, kind bpf.IngressShareKind, ofOther bool) {
	own, all := s.counters(publisher, kind)
	if !ofOther {
		atomic.AddUint32(own, ^uint32(0))
	}
	atomic.AddUint32(all, ^uint32(0))
}

func (s *shares) counters(publisher uint32, kind bpf.IngressShareKind) (own, all *uint32) {
	return &s.own[publisher].Entries[kind], &s.all[0].Entries[kind]
}
