// Package web serves the relay's web page: a player, a publisher, and a view of the relay for its operator.
//
// A [Site] answers the requests. The same Site answers requests over TCP ([Serve]) and requests by HTTP/3 to the
// relay's UDP port ([sluice/transport.ListenConfig]). Its files are in folder dist, which the build of /web makes (make
// generate), so the program needs nothing beside it.
//
//	GET /                      watch
//	GET /publish               publish
//	GET /embed                 only the player, for an <iframe> of other sites
//	GET /assets/NAME           scripts and styles; player.js is a web component for other sites
//	GET /relay.json            facts about the relay for the page: see Relay
//	GET /inside                the relay at work, for its operator: see package inside
//	GET /certificate.sha256    of the certificate of --dev, which no authority has signed
//	GET /viewers?field=a&…     how many sessions watch the broadcast in that namespace
//
// Media does not come this way: the page opens a WebTransport session, as any other player does.
//
// # Security
//
// Anybody can reach the page. A request has no body, and no answer repeats more of a request than the name of its host.
// All answers forbid scripts and styles of other origins, and connections to them but for the page's sessions, and only
// /embed may stand in a frame. Connections and answers about viewers are limited, in all and for each source address,
// and connections have timeouts.
package web
