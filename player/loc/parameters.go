package loc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
)

// Parameter sets come from strangers, and only a few fields of them are needed. So they are not given to a library that
// parses all of them: each field is read here, from a part of the set whose size is limited.

var (
	errParameterSet  = errors.New("a parameter set ends before its profile and its format")
	errParameterSets = errors.New("too many parameter sets, or one is too long")
)

// maxFields is how many bytes of a parameter set may have the fields that are needed: H.265's take 130 with all of its
// seven sub-layers.
const maxFields = 256

// AVCConfig returns the body of avcC (AVCDecoderConfigurationRecord, ISO/IEC 14496-15 §5.3.3.1) for the parameter sets
// of H.264.
func AVCConfig(sps, pps [][]byte) ([]byte, error) {
	if len(sps) == 0 || len(sps) > 31 || len(pps) > math.MaxUint8 {
		return nil, errParameterSets
	}
	r := newBitReader(sps[0], 1)
	profile, compatibility, level := byte(r.bits(8)), byte(r.bits(8)), byte(r.bits(8))
	b := []byte{1, profile, compatibility, level, 0xfc | (lengthSize - 1), 0xe0 | byte(len(sps))}
	b, err := appendUnits(b, sps)
	if err == nil {
		b, err = appendUnits(append(b, byte(len(pps))), pps)
	}
	switch profile {
	case 100, 110, 122, 144:
		r.golomb() // seq_parameter_set_id
		chroma := r.golomb()
		if chroma == 3 {
			r.bits(1) // separate_colour_plane_flag
		}
		luma, depth := r.golomb(), r.golomb()
		b = append(b, 0xfc|byte(chroma&3), 0xf8|byte(luma&7), 0xf8|byte(depth&7), 0)
	}
	if r.failed {
		err = errParameterSet
	}
	if err != nil {
		return nil, fmt.Errorf("H.264: %w", err)
	}
	return b, nil
}

// HEVCConfig returns the body of hvcC (HEVCDecoderConfigurationRecord, ISO/IEC 14496-15 §8.3.3.1) for the parameter
// sets of H.265. complete says that there are no others in the frames.
func HEVCConfig(vps, sps, pps [][]byte, complete bool) ([]byte, error) {
	if len(sps) == 0 {
		return nil, errParameterSets
	}
	r := newBitReader(sps[0], 2)
	r.bits(4) // sps_video_parameter_set_id
	subLayers := int(r.bits(3))
	r.bits(1) // sps_temporal_id_nesting_flag
	b := []byte{1}
	for range 12 { // general profile, tier, compatibility, constraints and level (ITU-T H.265 §7.3.3)
		b = append(b, byte(r.bits(8)))
	}
	r.skipSubLayers(subLayers)
	r.golomb() // sps_seq_parameter_set_id
	chroma := r.golomb()
	if chroma == 3 {
		r.bits(1) // separate_colour_plane_flag
	}
	r.golomb() // width
	r.golomb() // height
	if r.bits(1) == 1 {
		for range 4 { // conformance window
			r.golomb()
		}
	}
	luma, depth := r.golomb(), r.golomb()
	if r.failed {
		return nil, fmt.Errorf("H.265: %w", errParameterSet)
	}
	// Segmentation, parallelism, frame rate and temporal layers are not told.
	b = append(b, 0xf0, 0, 0xfc, 0xfc|byte(chroma&3), 0xf8|byte(luma&7), 0xf8|byte(depth&7), 0, 0, lengthSize-1, 3)
	flag := byte(0)
	if complete {
		flag = 0x80
	}
	var err error
	for i, units := range [][][]byte{vps, sps, pps} {
		if len(units) > math.MaxUint8 {
			return nil, fmt.Errorf("H.265: %w", errParameterSets)
		}
		b = append(b, flag|byte(hevcVPS+i), 0, byte(len(units)))
		if b, err = appendUnits(b, units); err != nil {
			return nil, fmt.Errorf("H.265: %w", err)
		}
	}
	return b, nil
}

// appendUnits appends NAL units, each after its length.
func appendUnits(b []byte, units [][]byte) ([]byte, error) {
	for _, u := range units {
		if len(u) > math.MaxUint16 {
			return nil, errParameterSets
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(u)))
		b = append(b, u...)
	}
	return b, nil
}

// bitReader reads the fields of a parameter set. Beyond its end, all are zero, and it has failed.
type bitReader struct {
	b      []byte
	at     int // in bits
	failed bool
}

// newBitReader returns a reader of a NAL unit after its header.
func newBitReader(nal []byte, header int) *bitReader {
	nal = nal[min(header, len(nal)):]
	return &bitReader{b: h264.EmulationPreventionRemove(nal[:min(len(nal), maxFields)])}
}

// bits reads a number of at most 64 bits.
func (r *bitReader) bits(n int) (v uint64) {
	if r.failed = r.failed || n > 8*len(r.b)-r.at; r.failed {
		return 0
	}
	for range n {
		v = v<<1 | uint64(r.b[r.at/8]>>(7-r.at%8)&1)
		r.at++
	}
	return v
}

// golomb reads an unsigned Exp-Golomb number (ITU-T H.264 §9.1).
func (r *bitReader) golomb() uint64 {
	zeros := 0
	for r.bits(1) == 0 {
		if zeros++; r.failed || zeros > 32 {
			r.failed = true
			return 0
		}
	}
	return 1<<zeros - 1 + r.bits(zeros)
}

// skipSubLayers skips the fields of sub-layers in profile_tier_level (ITU-T H.265 §7.3.3).
func (r *bitReader) skipSubLayers(n int) {
	if n == 0 {
		return
	}
	size := 0
	for i := range 8 {
		profile, level := r.bits(1), r.bits(1)
		if i < n {
			size += int(88*profile + 8*level)
		}
	}
	for range size {
		r.bits(1)
	}
}
