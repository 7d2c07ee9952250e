// Package rtspwire speaks RTSP by hand, for tests: a [Conn] sends requests whose every header is the caller's choice,
// and packets of RTP that no library has looked at.
package rtspwire
