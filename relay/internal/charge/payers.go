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

// Upload counts bytes that a publisher has sent.
func (ps Payers) Upload(n int) {
	for _, a := range ps {
		a.upload.add(n)
	}
}

// AwaitUpload waits until the publisher may send more. Meanwhile nothing is read, and flow control stops it.
func (ps Payers) AwaitUpload(ctx context.Context) {
	for _, a := range ps {
		a.upload.wait(ctx)
	}
}

// RefuseUpload reports whether a datagram, for which there is no flow control, has to be dropped.
func (ps Payers) RefuseUpload() bool {
	for _, a := range ps {
		if a.upload.inDebt() {
			a.Refuse(UploadRate)
			return true
		}
	}
	return false
}

// RefuseDownload reports whether an account has received more than its quota allows.
func (ps Payers) RefuseDownload() bool {
	for _, a := range ps {
		if a.download.inDebt() {
			a.Refuse(DownloadRate)
			return true
		}
	}
	return false
}

// Download counts bytes of a FETCH response.
func (ps Payers) Download(n int) {
	for _, a := range ps {
		a.download.add(n)
	}
}

// AwaitDownload waits until more of a FETCH response may be sent.
func (ps Payers) AwaitDownload(ctx context.Context) {
	for _, a := range ps {
		a.download.wait(ctx)
	}
}
