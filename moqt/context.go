package moqt

// Context describes where a control message was received: the place decides which messages are allowed, with which
// contents.
type Context struct {
	// Stream is the type of the first message of the stream: MessageSetup on the control stream, the type of the
	// request on a request stream. It is 0 if the message is itself the first one on a bidirectional stream.
	Stream MessageType
	// FromResponder is set if the sender of the message did not open the stream.
	FromResponder bool
	// Answers is the type of the message that a REQUEST_OK or REQUEST_ERROR answers: Stream or MessageRequestUpdate.
	// 0 means Stream.
	Answers MessageType
	// Server is set if the receiver is the server of the session.
	Server bool
	// WebTransport is set if the session is not raw QUIC.
	WebTransport bool
	// Hops says in which messages the ends have agreed on HOP_PATH.
	Hops Hops
}

// Check returns a ProtocolError if m must not be received in context c.
func (c Context) Check(v Version, m Message) error {
	w := v.wire()
	if err := c.checkStream(w, m.Type()); err != nil {
		return err
	}
	if err := c.checkHops(m); err != nil {
		return err
	}
	switch m := m.(type) {
	case *Setup:
		return c.checkSetup(m)
	case *Goaway:
		return c.checkGoaway(m)
	case *RequestUpdate:
		return w.check(&m.Parameters, updateScope(w.messages[c.Stream].opens))
	case *RequestOK:
		return c.checkRequestOK(w, m)
	case *RequestError:
		return c.checkRedirect(w, m.Redirect)
	}
	return nil
}

// checkStream checks the column "Stream" of the table of messages (draft §10).
func (c Context) checkStream(w *wire, typ MessageType) error {
	f := w.messages[typ]
	if c.Stream == 0 {
		if f.opens == 0 {
			return violation("%s opens a request stream", typ)
		}
		return nil
	}
	allowed := f.fromRequester
	if c.FromResponder {
		allowed = f.fromResponder
	}
	if allowed&w.messages[c.Stream].streams() == 0 {
		return violation("%s on a stream that %s opened", typ, c.Stream)
	}
	return nil
}

// updateScope returns the scope of the parameters of a REQUEST_UPDATE on stream.
func updateScope(stream streamSet) scope {
	switch {
	case stream&(onSubscribe|onPublish) != 0:
		return inUpdateSubscription
	case stream&onFetch != 0:
		return inUpdateFetch
	case stream&onSubscribeNamespace != 0:
		return inUpdatePrefix
	case stream&onSubscribeTracks != 0:
		return inUpdateTracks
	}
	return inUpdateNamespace
}

// okScope returns the scope of the parameters of a REQUEST_OK that answers the request of stream.
func okScope(stream streamSet) scope {
	switch {
	case stream&onPublish != 0:
		return inPublishOK
	case stream&onTrackStatus != 0:
		return inTrackStatusOK
	}
	return inNamespaceOK
}

// checkRequestOK checks parameters and Track Properties, which depend on what the message answers (draft §10.5).
func (c Context) checkRequestOK(w *wire, m *RequestOK) error {
	stream := w.messages[c.Stream].opens
	if c.Answers != MessageRequestUpdate && stream&(onSubscribe|onFetch) != 0 {
		return violation("REQUEST_OK to a %s, which has an answer of its own", c.Stream)
	}
	if c.Answers == MessageRequestUpdate {
		if len(m.Properties) > 0 {
			return violation("track properties in a REQUEST_UPDATE_OK")
		}
		return w.check(&m.Parameters, inUpdateOK)
	}
	if len(m.Properties) > 0 && stream != onTrackStatus {
		return violation("track properties in the REQUEST_OK to a %s", c.Stream)
	}
	return w.check(&m.Parameters, okScope(stream))
}

// checkSetup checks what draft §10.2.2 and §10.3.1 demand of each role and transport.
func (c Context) checkSetup(m *Setup) error {
	notHere := !c.Server || c.WebTransport
	switch {
	case m.Path != nil && notHere:
		return &ProtocolError{SessionInvalidPath, "PATH is for clients on raw QUIC"}
	case m.Authority != nil && notHere:
		return &ProtocolError{SessionInvalidAuthority, "AUTHORITY is for clients on raw QUIC"}
	case m.Path != nil && !validPath(*m.Path):
		return &ProtocolError{SessionMalformedPath, "PATH is not a path and query of RFC 3986"}
	case m.Authority != nil && !validAuthority(*m.Authority):
		return &ProtocolError{SessionMalformedAuthority, "AUTHORITY is not an authority of RFC 3986"}
	}
	for _, t := range m.AuthorizationTokens {
		if c.Server && (t.AliasType == AliasDelete || t.AliasType == AliasUse) {
			return violation("SETUP uses a token alias that cannot exist yet")
		}
	}
	return nil
}

// checkGoaway checks what draft §10.4 demands of each role and stream. A GOAWAY without Request ID is accepted on the
// control stream: only draft-18 has the field, and nothing depends on it.
func (c Context) checkGoaway(m *Goaway) error {
	if c.Server && m.NewSessionURI != "" {
		return violation("GOAWAY from a client has a new session URI")
	}
	if m.RequestID == nil {
		return nil
	}
	if c.Stream != MessageSetup {
		return violation("GOAWAY on a request stream has a request id")
	}
	// The id is one of the receiver's: even for clients, odd for servers.
	if odd := *m.RequestID%2 == 1; odd != c.Server {
		return &ProtocolError{SessionInvalidRequestID, "request id in GOAWAY belongs to its sender"}
	}
	return nil
}

// checkRedirect checks draft §10.6.1.
func (c Context) checkRedirect(w *wire, r *Redirect) error {
	if r == nil {
		return nil
	}
	if c.Server && r.URI != "" {
		return violation("redirect from a client has a connect URI")
	}
	forNamespace := c.Stream == MessageSubscribeNamespace || c.Stream == MessagePublishNamespace ||
		c.Stream == MessageSubscribeTracks && w.limitOptions // draft-18 does not name it
	if forNamespace && r.Track.Name != "" {
		return violation("redirect for a %s has a track name", c.Stream)
	}
	return nil
}
