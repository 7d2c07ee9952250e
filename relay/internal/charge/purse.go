package charge

import (
	"sync"

	"sluice/moqt"
)

// Purse has the accounts that pay for a session: its source address first, and each token that was accepted from it.
// The zero value has none.
type Purse struct {
	Address *Account // of the source address; nil: none

	mu      sync.Mutex
	payers  Payers // never changed in place
	charged uint64 // bytes of media that the accounts were charged for
}

// Payers returns the accounts.
func (p *Purse) Payers() Payers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.payers
}

// Open sets the account of the source address.
func (p *Purse) Open(address *Account) { p.Address, p.payers = address, Payers{address} }

// Token returns the account of a token, and opens it if the session has not used it before.
func (p *Purse) Token(all *Accounts, subject string) (*Account, *moqt.RequestError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.payers {
		if a.Key == (Key{ByToken, subject}) {
			return a, nil
		}
	}
	a, refused := all.OpenToken(subject)
	if refused == nil {
		p.payers = append(p.payers[:len(p.payers):len(p.payers)], a)
	}
	return a, refused
}

// Sent charges the bytes of media that were sent to the session since the last call. total is all of them.
func (p *Purse) Sent(total uint64) {
	p.mu.Lock()
	bytes := max(total, p.charged) - p.charged
	p.charged += bytes
	all := p.payers
	p.mu.Unlock()
	for _, a := range all {
		a.Received(bytes)
	}
}
