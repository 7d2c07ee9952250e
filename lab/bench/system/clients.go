package system

import (
	"strings"
)

// Clients are a program that publishes fragmented MP4 from its standard input, and one that plays it to its standard
// output.
type Clients struct {
	Name string
	// Publisher and Player are the commands, with the placeholders {url} of the relay, {namespace} of the broadcast,
	// and {sluice}, the program sluice. Spaces divide their words.
	Publisher, Player string
}

// OwnClients are Sluice's.
var OwnClients = Clients{
	Name:      "sluice",
	Publisher: "{sluice} pub --relay {url} --tls-disable-verify --namespace {namespace} -",
	Player:    "{sluice} sub --relay {url} --tls-disable-verify --namespace {namespace} --out -",
}

// StockClients returns the clients of others that lab/bench/install-peers has installed in a directory, or else those
// in PATH.
func StockClients(dir string) (Clients, error) {
	c := Clients{Name: "moq-pub"}
	for name, command := range map[string]*string{"moq-pub": &c.Publisher, "moq-sub": &c.Player} {
		path, err := installed(name, dir)
		if err != nil {
			return Clients{}, err
		}
		*command = path + " --tls-disable-verify --name {namespace} {url}"
	}
	return c, nil
}

// Words returns the words of the command of one of the clients, for a relay and a broadcast there.
func (c Clients) Words(command, url, namespace, sluice string) ([]string, error) {
	return expand(strings.Fields(command), map[string]string{"url": url, "namespace": namespace, "sluice": sluice})
}
