// Package keep keeps one session with a relay. [Run] dials, dials again when the session is lost, and follows GOAWAY.
// A [Config] says how: its functions open a session and learn what happens, its [Backoff] says how often to try and
// when to give up. After GOAWAY the old session is in use until its user says that a new one has replaced it. A relay
// that GOAWAY names and that cannot be reached is given up for the configured one.
package keep
