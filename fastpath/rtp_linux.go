package fastpath

import (
	"cmp"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"sluice/fastpath/bpf"
)

// rtp is RTP as a protocol: its program, the table of medias, and workers.
type rtp struct {
	kernel  *kernel
	objects bpf.RTPObjects
	medias  *lent[bpf.RTPMedia]
	byMedia []*growing
	shares  shares // by source: of jobs only
	workers *workers

	mu         sync.Mutex
	free       []uint32 // indices of medias
	freeShares []uint32
	of         map[netip.Prefix]*rtpSource
}

// rtpSource is where medias come from.
type rtpSource struct {
	medias int    // how many
	share  uint32 // index in shares
}

// sourceOf returns the source of an address: the IPv4 address, or the IPv6 /64.
func sourceOf(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(min(a.BitLen(), 64)) // fails for an address that is not valid
	return p
}

// newRTP loads the program. If it fails, the caller closes the protocol that it returns.
func newRTP(k *kernel, s *Settings) (*rtp, error) {
	r := &rtp{kernel: k, of: make(map[netip.Prefix]*rtpSource)}
	r.workers = newWorkers(r, s)
	r.shares = shares{all: k.shares.all, sizes: k.shares.sizes, since: make([]atomic.Uint64, MaxRTPMedias)}
	r.shares.sizes[shareJobs] = jobsPerRing * uint32(s.Workers)
	for i := range uint32(MaxRTPMedias) {
		r.free, r.freeShares = append(r.free, i), append(r.freeShares, i)
	}
	spec, err := r.load(s)
	if err != nil {
		return r, err
	}
	if r.medias, err = newLent[bpf.RTPMedia](r.objects.RtpMedias, 1); err != nil {
		return r, err
	}
	if err := keepGrowing(r.objects.HeldByEach, &r.byMedia, &r.shares.own); err != nil {
		return r, err
	}
	return r, errors.Join(
		growAll(r.byMedia, MaxRTPMedias),
		keepMapped(k, r.objects.Promises, &r.workers.given),
		keepMapped(k, r.objects.BusyUntil, &r.workers.busyUntil),
		r.workers.hire(s.Workers, spec.Maps[bpf.RTPMapJobRings].InnerMap))
}

func (r *rtp) load(s *Settings) (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadRTP()
	if err != nil {
		return nil, err
	}
	if err := s.prepare(spec, map[string]any{
		bpf.RTPVarRtpPort:     bigEndian16(s.RTPPort),
		bpf.RTPVarMaxCopies:   uint32(min(cmp.Or(s.MaxCopies, DefaultMaxCopies), MaxRTPRun/rtpCopies)),
		bpf.RTPVarExtentShift: extentShift,
		bpf.RTPVarShareSizes:  r.shares.sizes,
		bpf.RTPVarWorkers:     uint32(s.Workers),
		bpf.RTPVarChunkCopies: r.workers.chunk,
		bpf.RTPVarJobLifetime: uint64(r.workers.lifetime),
	}); err != nil {
		return nil, err
	}
	spec.Maps[bpf.RTPMapRtpMedias].MaxEntries = MaxRTPMedias
	spec.Maps[bpf.RTPMapRtpSources].MaxEntries = MaxRTPMedias
	setGrowing(spec.Maps[bpf.RTPMapHeldByEach], MaxRTPMedias)
	spec.Maps[bpf.RTPMapPromises].MaxEntries = uint32(max(len(r.workers.kept), 1))
	common := &r.kernel.ingress
	return spec, spec.LoadAndAssign(&r.objects, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		bpf.RTPMapScratches: common.Scratches,
		bpf.RTPMapNeighbors: common.Neighbors,
		bpf.RTPMapReasons:   common.Reasons,
		bpf.RTPMapDelays:    common.Delays,
		bpf.RTPMapMeasuring: common.Measuring,
		bpf.RTPMapHeldByAll: common.HeldByAll,
	}})
}

// start implements protocol.
func (r *rtp) start() error { return r.workers.start() }

// program implements protocol.
func (r *rtp) program() *ebpf.Program { return r.objects.RtpIngress }

// awaitUnused implements protocol.
func (r *rtp) awaitUnused() { r.workers.awaitUnused() }

// copies implements protocol.
func (r *rtp) copies() uint64 { return r.workers.runs.Load() * uint64(r.workers.chunk) }

// close implements protocol.
func (r *rtp) close() error {
	errs := []error{r.workers.close()}
	for _, g := range r.byMedia {
		errs = append(errs, g.close())
	}
	if r.medias != nil {
		errs = append(errs, r.medias.close())
	}
	return errors.Join(append(errs, r.objects.Close())...)
}

// continueJob runs the program that a job is for.
func (r *rtp) continueJob(job []byte) (goOn uint32, err error) {
	j := jobOf(job)
	var c runContext
	c.control[bpf.RTPRtpJobWordJOB_POSITION] = j.Position
	c.control[bpf.RTPRtpJobWordJOB_SINCE_LOW] = uint32(j.Since)
	c.control[bpf.RTPRtpJobWordJOB_SINCE_HIGH] = uint32(j.Since >> 32)
	return runProgram(r.objects.ContinueRtp, job[unsafe.Sizeof(*j):], &c)
}

var (
	errNoRTP    = errors.New("fast path: no port for RTP")
	errRTPShare = errors.New("fast path: no room for another media of that source")
)

// take returns a free index, and the index of the source's share of jobs. A source may have as many medias as are free,
// so one alone has half of them at most.
func (r *rtp) take(source netip.Prefix) (index, share uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[source]
	if s != nil && s.medias >= len(r.free) || len(r.free) == 0 {
		return 0, 0, errRTPShare
	}
	if s == nil {
		s = &rtpSource{share: pop(&r.freeShares)}
		r.of[source] = s
		r.shares.reset(s.share)
	}
	s.medias++
	return pop(&r.free), s.share, nil
}

func (r *rtp) give(source netip.Prefix, index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[source]
	if s.medias--; s.medias == 0 {
		delete(r.of, source)
		r.freeShares = append(r.freeShares, s.share)
	}
	r.free = append(r.free, index)
}

// pop removes the last element, and returns it.
func pop(list *[]uint32) uint32 {
	last := len(*list) - 1
	one := (*list)[last]
	*list = (*list)[:last]
	return one
}
