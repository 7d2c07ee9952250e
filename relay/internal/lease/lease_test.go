package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// TestWithdrawnBeforeLeaseBegins withdraws a token between the answer of the Authorizer and its use.
func TestWithdrawnBeforeLeaseBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewLeases()
		l := all.New(t.Context(), func(context.Context, []moqt.Token) (Grant, *moqt.RequestError) {
			return Grant{Subject: "someone"}, nil
		})
		require.Nil(t, l.Obtain(t.Context(), nil))
		_, err := all.Withdrawn.Withdraw("someone", time.Hour)
		require.NoError(t, err)
		var lost *moqt.RequestError
		l.Begin(func(why *moqt.RequestError) { lost = why })
		synctest.Wait()
		require.Equal(t, errWithdrawn, lost)
	})
}
