package claimtest

// words is which actors access the words of a scenario, by their places in its memory. It grows while a scenario is
// explored. The exploration begins anew when a word turns out to make a difference that was not known to.
type words map[uintptr]users

// users is who accesses a word.
type users struct{ all, writers actors }

// matter reports whether it makes a difference when the word is accessed: one actor may change what another one sees.
func (u users) matter() bool { return u.writers != 0 && u.all&(u.all-1) != 0 }

// differ reports whether it makes a difference when an access is made. Words that are not the scenario's are one
// actor's own.
func (w words) differ(sc *Scenario, a access) bool {
	at, ok := sc.placeOf(a.word)
	return ok && w[at].matter()
}

// note notes an access. It reports whether the word has turned out to make a difference.
func (w words) note(sc *Scenario, actor int, a access) bool {
	at, ok := sc.placeOf(a.word)
	if !ok {
		return false
	}
	before := w[at]
	after := before
	if after.all |= 1 << actor; a.writes {
		after.writers |= 1 << actor
	}
	w[at] = after
	return after.matter() && !before.matter()
}
