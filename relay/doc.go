// Package relay connects publishers and subscribers: namespaces, tracks, subscriptions and fetches (draft §5, §6 and §9).
package relay
