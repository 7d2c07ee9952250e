// Package groups reads which network prefixes belong together, as a customer, an autonomous system or a site. The
// monitor then counts for each group instead of each prefix.
package groups
