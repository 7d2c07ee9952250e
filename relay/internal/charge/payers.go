package charge

import (
	"context"

	"sluice/moqt"
)

// Payers are the accounts that a request is charged to: that of the session's address and, if a token allowed the
// request, that of the token.
type Payers []*Account

// Take uses one of each resource of all accounts, or none and returns why.
func (ps Payers) Take(rs ...Resource) *moqt.RequestError {
	for i, a := range ps {
		if refused := a.Take(rs...); refused != nil {
			ps[:i].Give(rs...)
			return refused
		}
	}
	return nil
}

// Give returns what Take has used.
func (ps Payers) Give(rs ...Resource) {
	for _, a := range ps {
		a.Give(rs...)
	}
}

// Count counts bytes that a publisher has sent (UploadRate), or a FETCH response has brought (DownloadRate).
func (ps Payers) Count(r Resource, n int) {
	for _, a := range ps {
		a.meters[r].add(n)
	}
}

// Await waits until a publisher may send more, or more of a FETCH response may be sent. While nothing is read, flow
// control stops a publisher.
func (ps Payers) Await(ctx context.Context, r Resource) {
	for _, a := range ps {
		a.meters[r].wait(ctx)
	}
}

// Refuse reports whether an account has exceeded a rate. Datagrams have no flow control, and are dropped then.
func (ps Payers) Refuse(r Resource) bool {
	for _, a := range ps {
		if a.meters[r].inDebt() {
			a.Refuse(r)
			return true
		}
	}
	return false
}
