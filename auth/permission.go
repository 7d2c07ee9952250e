package auth

import (
	"fmt"
	"strings"

	"sluice/internal/bounds"
	"sluice/moqt"
	"sluice/relay"
)

// Permission allows the actions of a word in all namespaces with a prefix. A line of a token file, or an entry of a
// JSON Web Token's scope, is one.
type Permission struct {
	Word   string // Publish, Subscribe, Discover or All
	Prefix moqt.Namespace
}

// All is the word for everything.
const All = "all"

// ParsePermission parses the form "word:prefix".
func ParsePermission(s string) (Permission, error) {
	word, text, _ := strings.Cut(s, ":")
	if err := bounds.OneOf("permission", word, Publish, Subscribe, Discover, All); err != nil {
		return Permission{}, err
	}
	prefix, err := ParsePrefix(text)
	return Permission{word, prefix}, err
}

// IsPermission reports whether a text is meant as a Permission: whether it begins with one of the words and a colon.
func IsPermission(s string) bool {
	word, _, found := strings.Cut(s, ":")
	return found && bounds.OneOf("", word, Publish, Subscribe, Discover, All) == nil
}

// Allows reports whether the permission allows a request.
func (p Permission) Allows(r *relay.AuthRequest) bool {
	return (p.Word == All || p.Word == Word(r.Action)) && r.Namespace.HasPrefix(p.Prefix)
}

// String returns the form that ParsePermission parses.
func (p Permission) String() string {
	if len(p.Prefix) == 0 {
		return p.Word + ":*"
	}
	return fmt.Sprintf("%s:%s", p.Word, NamespaceText(p.Prefix))
}
