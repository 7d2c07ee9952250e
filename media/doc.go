// Package media sends the subscription data of many subscribers, each on the QUIC connection it shares with quic-go.
package media
