// Package page writes the summary of a history as one HTML page: it needs no other file, no script and no network.
package page
