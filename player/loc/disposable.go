package loc

import (
	"fmt"
	"strings"
)

// lengthSize is the size of the length before each NAL unit.
const lengthSize = 4

// CheckLengths returns an error if a decoder's configuration says that lengths before NAL units do not have the size
// that LOC demands (LOC §2.1.3).
func CheckLengths(codec string, config []byte) error {
	at := map[string]int{"avc1": 4, "avc3": 4, "hvc1": 21, "hev1": 21}
	name, _, _ := strings.Cut(codec, ".")
	i, nal := at[name]
	if nal && i < len(config) && int(config[i]&3)+1 != lengthSize {
		return fmt.Errorf("codec %s has %d bytes for the length of a NAL unit: LOC should have %d",
			codec, config[i]&3+1, lengthSize)
	}
	return nil
}

// Dependency finds frames that no other frame depends on. It takes the frames of one track in decode order.
type Dependency struct {
	disposable func(*Dependency, []byte) bool
	temporal   byte // the highest temporal id so far
}

// NewDependency returns a Dependency for a codec by its name (RFC 6381). It takes frames of a codec that it does not
// know as frames that others depend on.
func NewDependency(codec string) *Dependency {
	name, _, _ := strings.Cut(codec, ".")
	return &Dependency{disposable: map[string]func(*Dependency, []byte) bool{
		"avc1": (*Dependency).avc, "avc3": (*Dependency).avc,
		"hvc1": (*Dependency).hevc, "hev1": (*Dependency).hevc,
		"av01": (*Dependency).av1,
	}[name]}
}

// Disposable reports whether no other frame depends on the next one.
func (d *Dependency) Disposable(frame []byte) bool {
	return d.disposable != nil && d.disposable(d, frame)
}

// avc: nal_ref_idc of all slices is 0 (ITU-T H.264 §7.4.1).
func (d *Dependency) avc(frame []byte) bool {
	nals, _, ok := split(frame)
	slices := 0
	for _, n := range nals {
		if typ := n[0] & 31; typ < 1 || typ > 5 {
			continue
		}
		if slices++; n[0]>>5&3 != 0 {
			return false
		}
	}
	return ok && slices > 0
}

// hevc: all slices are sub-layer non-reference pictures of the highest sub-layer (ITU-T H.265 §7.4.2.2).
func (d *Dependency) hevc(frame []byte) bool {
	const lastNonReference, lastSlice = 14, 31
	nals, _, ok := split(frame)
	slices := 0
	for _, n := range nals {
		typ := n[0] >> 1 & 63
		if typ > lastSlice || len(n) < 2 {
			continue
		}
		temporal := n[1] & 7
		d.temporal = max(d.temporal, temporal)
		if slices++; typ > lastNonReference || typ%2 == 1 || temporal < d.temporal {
			return false
		}
	}
	return ok && slices > 0
}

// av1: all frames are of a temporal layer above the base layer (AV1 §5.3.3). The base layer does not depend on them.
func (d *Dependency) av1(frame []byte) bool {
	list, ok := obus(frame)
	upper := false
	for _, o := range list {
		if o.typ == obuTemporalDelimiter {
			continue
		}
		if upper = o.extended && o.temporal > 0 && o.typ != obuSequenceHeader; !upper {
			return false
		}
	}
	return ok && upper
}
