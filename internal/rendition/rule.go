package rendition

// Rule is who chooses among the renditions, by its view of the path.
type Rule string

// The rules.
const (
	ByClient Rule = "client" // as sluice sub and the web page do
	ByRelay  Rule = "relay"  // the relay chooses for the subscriber
)

// Rules returns all rules.
func Rules() []Rule { return []Rule{ByClient, ByRelay} }
