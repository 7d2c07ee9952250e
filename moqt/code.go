package moqt

import "fmt"

// codeName names a code of a registry; unknown codes (extensions, grease) show as numbers.
func codeName[C ~uint64](names map[C]string, c C) string {
	if name, ok := names[c]; ok {
		return name
	}
	return fmt.Sprintf("%#x", uint64(c))
}

// effectiveCode maps unknown codes to the registry's INTERNAL_ERROR (draft §14).
func effectiveCode[C ~uint64](names map[C]string, c, internal C) C {
	if _, ok := names[c]; ok {
		return c
	}
	return internal
}
