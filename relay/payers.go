package relay

import (
	"context"

	"sluice/moqt"
	"sluice/moqt/session"
)

// payers are the accounts that a request is charged to: that of the session's address and, if a token allowed the
// request, that of the token.
type payers []*account

// take uses one of each resource of all accounts, or none and returns why.
func (ps payers) take(rs ...resource) *moqt.RequestError {
	for i, a := range ps {
		if refused := a.take(rs...); refused != nil {
			ps[:i].give(rs...)
			return refused
		}
	}
	return nil
}

func (ps payers) give(rs ...resource) {
	for _, a := range ps {
		a.give(rs...)
	}
}

// upload counts bytes that a publisher has sent.
func (ps payers) upload(n int) {
	for _, a := range ps {
		a.upload.add(n)
	}
}

// awaitUpload waits until the publisher may send more. Meanwhile nothing is read, and flow control stops it.
func (ps payers) awaitUpload(ctx context.Context) {
	for _, a := range ps {
		a.upload.wait(ctx)
	}
}

// refuseUpload reports whether a datagram, for which there is no flow control, has to be dropped.
func (ps payers) refuseUpload() bool {
	for _, a := range ps {
		if a.upload.inDebt() {
			a.refuse(uploadRate)
			return true
		}
	}
	return false
}

// download counts bytes of a FETCH response.
func (ps payers) download(n int) {
	for _, a := range ps {
		a.download.add(n)
	}
}

// awaitDownload waits until more of a FETCH response may be sent.
func (ps payers) awaitDownload(ctx context.Context) {
	for _, a := range ps {
		a.download.wait(ctx)
	}
}

// leave gives back the peer's session. What it was sent last counts, too: otherwise short sessions were free.
func (p *peer) leave() {
	p.standing.close()
	p.relay.downloads.charge(p)
	p.payers().give(sessionsOpen)
}

// payers returns all accounts of the peer.
func (p *peer) payers() payers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accounts
}

// token returns the account of a token that the Authorizer has accepted from the peer.
func (p *peer) token(subject string) (*account, *moqt.RequestError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.accounts {
		if a.accountKey == (accountKey{tokenAccount, subject}) {
			return a, nil
		}
	}
	a, refused := p.relay.accounts.openToken(subject)
	if refused == nil {
		p.accounts = append(p.accounts[:len(p.accounts):len(p.accounts)], a)
	}
	return a, refused
}

// charge charges a request to the account of the peer's address, and to the relay. It is called before the Authorizer
// is asked, which may cost more than the request itself.
func (m *permission) charge(r *session.Request) *moqt.RequestError {
	m.payers = payers{m.peer.address}
	if refused := m.chargeTo(m.peer.address, r); refused != nil {
		return refused
	}
	return m.peer.relay.accounts.chargeRelay(r.Context())
}

// chargeToken charges a request to the account of the token that allowed it.
func (m *permission) chargeToken(r *session.Request) *moqt.RequestError {
	subject := m.current().Subject
	if subject == "" {
		return nil
	}
	a, refused := m.peer.token(subject)
	if refused != nil {
		return refused
	}
	m.payers = append(m.payers, a)
	if !a.Allow() {
		return a.refusal(requestRate)
	}
	return m.chargeTo(a, r)
}

func (m *permission) chargeTo(a *account, r *session.Request) *moqt.RequestError {
	if (m.action == ActionSubscribe || m.action == ActionFetch) && a.download.inDebt() {
		return a.refuse(downloadRate)
	}
	return a.charge(r.Context(), usesOf(m.action))
}
