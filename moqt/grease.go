package moqt

// maxGreaseN is the largest n whose grease value the draft lists, 0x3fffffffffffffde.
const maxGreaseN = (0x3fffffffffffffde - 0x9d) / 0x7f

// Grease returns the n-th reserved value, 0x7f*n + 0x9d (draft §14). Peers must tolerate it as a Setup Option,
// a Property, an error code of any registry and an Auth Token Type. Large n wrap around to small ones.
func Grease(n uint64) uint64 { return 0x7f*(n%(maxGreaseN+1)) + 0x9d }

// IsGrease reports whether x is a value that Grease can return.
func IsGrease(x uint64) bool {
	return x >= 0x9d && (x-0x9d)%0x7f == 0 && (x-0x9d)/0x7f <= maxGreaseN
}
