// Package session runs MoQ sessions: control streams, requests, and the data that belongs to them.
package session
