// Package track keeps the bytes of tracks as append-only subgroup logs, indexed by group, subgroup and object, and caches them.
package track
