package auth

import (
	"context"

	"sluice/relay"
)

// Any allows a request if at least one of its schemes does. It asks them in their order, and does not ask those after
// the first that allows; so a scheme that takes long stands last. Without schemes, nothing is allowed.
type Any []relay.Authorizer

// Authorize implements relay.Authorizer. Of several refusals it returns the most telling.
func (a Any) Authorize(ctx context.Context, r relay.AuthRequest) (relay.Grant, error) {
	var refusals Refusals
	for _, scheme := range a {
		grant, err := scheme.Authorize(ctx, r)
		if err == nil {
			return grant, nil
		}
		refusals.Add(err)
	}
	return relay.Grant{}, refusals.Err("nobody may do this")
}

// Changed implements relay.Reviewer.
func (a Any) Changed() (changed bool) {
	for _, scheme := range a {
		if r, ok := scheme.(relay.Reviewer); ok && r.Changed() {
			changed = true // the others are asked, too: each reports a change once
		}
	}
	return changed
}
