package relay

import (
	"context"

	"sluice/moqt"
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
