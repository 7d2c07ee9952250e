package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxMethods is how many methods a type has at most.
const maxMethods = 25

// house counts lines, types, methods and phrases in hand-written files. Types and methods of tests do not count.
type house struct {
	goLines, testLines, cLines int
	types                      map[string]*typeCount // by folder and name
	words                      int                   // in comments of Go, tests included
	phrases                    [len(phrases)]int     // in these comments
}

// typeCount counts the methods of a type. Systems for which a package has other files have the same methods.
type typeCount struct {
	files   map[string]bool     // that declare it
	methods map[string][]string // the files of each
}

// home reports whether all of a method is where the type is.
func (t *typeCount) home(method string) bool {
	return !slices.ContainsFunc(t.methods[method], func(file string) bool { return !t.files[file] })
}

// phrases are constructions that a plain sentence does without (CONTRIBUTING.md).
var phrases = [...]struct {
	name    string
	pattern *regexp.Regexp
}{
	{"that of, those of, the one", regexp.MustCompile(`(?i)\b(that of|those of|the one)\b`)},
	{"of which, for which", regexp.MustCompile(`(?i)\b(of|for) which\b`)},
	{"what is, what it, what was", regexp.MustCompile(`(?i)\bwhat (is|it|was)\b`)},
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// add counts a file.
func (h *house) add(name string, text []byte) error {
	lines := strings.Count(string(text), "\n")
	switch filepath.Ext(name) {
	case ".c", ".h":
		h.cLines += lines
	case ".go":
		if generated.Match(text) {
			return nil
		}
		test := strings.HasSuffix(name, "_test.go")
		if test {
			h.testLines += lines
		} else {
			h.goLines += lines
		}
		return h.addGo(name, text, test)
	}
	return nil
}

func (h *house) addGo(name string, text []byte, test bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		comment := group.Text()
		h.words += len(strings.Fields(comment))
		for i, p := range phrases {
			h.phrases[i] += len(p.pattern.FindAllString(comment, -1))
		}
	}
	if test {
		return nil
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					h.typeOf(name, s.Name.Name).files[name] = true
				}
			}
		case *ast.FuncDecl:
			if d.Recv != nil {
				t := h.typeOf(name, receiver(d.Recv.List[0].Type))
				t.methods[d.Name.Name] = append(t.methods[d.Name.Name], name)
			}
		}
	}
	return nil
}

// typeOf returns a type of the package that a file belongs to.
func (h *house) typeOf(file, name string) *typeCount {
	key := filepath.ToSlash(filepath.Dir(file)) + "." + name
	if h.types[key] == nil {
		h.types[key] = &typeCount{files: make(map[string]bool), methods: make(map[string][]string)}
	}
	return h.types[key]
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// methods returns the number of all methods, and of those outside of the file of their type.
func (h *house) methods() (all, away int) {
	for _, t := range h.types {
		all += len(t.methods)
		for name := range t.methods {
			if !t.home(name) {
				away++
			}
		}
	}
	return all, away
}

// large returns the types with more than maxMethods methods, the largest first.
func (h *house) large() (list []string) {
	count := func(name string) int { return len(h.types[name].methods) }
	for name := range h.types {
		if count(name) > maxMethods {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		if d := count(b) - count(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, name := range list {
		list[i] = fmt.Sprintf("%s (%d)", name, count(name))
	}
	return list
}

// counts returns what has a limit, by name.
func (h *house) counts() map[string]float64 {
	all, away := h.methods()
	c := map[string]float64{
		"lines of Go without tests": float64(h.goLines), "lines of tests": float64(h.testLines),
		"lines of C": float64(h.cLines), "types above 25 methods": float64(len(h.large())),
		"methods outside of their type's file, per cent": 100 * float64(away) / float64(max(all, 1)),
	}
	for i, p := range phrases {
		c[`"`+p.name+`" in 10,000 words`] = 10_000 * float64(h.phrases[i]) / float64(max(h.words, 1))
	}
	return c
}

// print prints each count beside its limit and its goal, and reports whether a count exceeds its limit.
func (h *house) print(w io.Writer) (beyond bool) {
	counts := h.counts()
	for _, l := range limits {
		mark := ""
		if counts[l.name] > l.most {
			mark, beyond = "  too many", true
		}
		fmt.Fprintf(w, "%9.1f  at most %9.1f  goal %9.1f  %s%s\n", counts[l.name], l.most, l.goal, l.name, mark)
	}
	for _, name := range h.large() {
		fmt.Fprintln(w, "  ", name)
	}
	return beyond
}

// limits are what the house has, rounded up so that a small change passes; the goal is where to.
var limits = []struct {
	name       string
	most, goal float64
}{
	{"lines of Go without tests", 132_000, 92_000},
	{"lines of tests", 100_000, 75_000},
	{"lines of C", 11_500, 11_000},
	{"types above 25 methods", 0, 0},
	{"methods outside of their type's file, per cent", 4.5, 5},
	{`"that of, those of, the one" in 10,000 words`, 3, 4},
	{`"of which, for which" in 10,000 words`, 1.5, 4},
	{`"what is, what it, what was" in 10,000 words`, 4, 4},
}
