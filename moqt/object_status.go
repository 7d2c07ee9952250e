package moqt

import "fmt"

// ObjectStatus says what an object without payload stands for (draft §11.2.1.1).
type ObjectStatus uint64

// Object statuses.
const (
	StatusNormal     ObjectStatus = 0x0 // an object
	StatusEndOfGroup ObjectStatus = 0x3 // its group has no object with this or a larger id
	StatusEndOfTrack ObjectStatus = 0x4 // its track has no object at this or a larger location
)

// String names the status.
func (s ObjectStatus) String() string {
	switch s {
	case StatusNormal:
		return "normal"
	case StatusEndOfGroup:
		return "end of group"
	case StatusEndOfTrack:
		return "end of track"
	}
	return fmt.Sprintf("object status %#x", uint64(s))
}

// validate returns an error if no object has status s and properties p (draft §11.2.1.1, §11.2.1.2).
func (s ObjectStatus) validate(p Properties) error {
	switch s {
	case StatusNormal:
		return nil
	case StatusEndOfGroup, StatusEndOfTrack:
		if len(p) > 0 {
			return fmt.Errorf("object with status %q has properties", s)
		}
		return nil
	}
	return fmt.Errorf("unknown object status %#x", uint64(s))
}
