package session

import "sluice/moqt"

// keptTokens counts the tokens of the peer's open requests, and of its updates that have no response. They are kept
// because the application may have to review its decision. The session's mu guards it: its methods expect the caller to
// hold mu.
type keptTokens struct {
	limit uint64 // in bytes, as for the token cache
	size  uint64
}

// add counts tokens. It returns false if there is no room for them.
func (k *keptTokens) add(tokens []moqt.Token) bool {
	n := sizeOf(tokens)
	if n > k.limit-k.size {
		return false
	}
	k.size += n
	return true
}

func (k *keptTokens) remove(tokens []moqt.Token) { k.size -= sizeOf(tokens) }

func sizeOf(tokens []moqt.Token) (n uint64) {
	for _, t := range tokens {
		n += t.CacheSize()
	}
	return n
}

// errTokenMemory refuses requests and updates for whose tokens there is no room.
var errTokenMemory = overloaded("the authorization tokens of all open requests are too large; end some requests first")
