// Command pages writes the numbers of runs into README.md and docs/*.md, from the results files in docs/results, and
// beside each results.json its tables and the plots that a page shows. CONTRIBUTING.md says how a number gets into a
// page. With the argument check it changes nothing, and names what differs from the data, links that lead nowhere,
// numbers of runs that stand outside of markers, and results of commits that are lost or too old. scripts/evidence
// calls it with list and accept.
package main

import (
	"fmt"
	"os"
)

func main() {
	d, err := read()
	var problems []string
	switch command := append(os.Args[1:], ""); {
	case err != nil:
	case command[0] == "":
		problems = check(d, true)
	case command[0] == "check":
		old, note := history(d)
		fmt.Print(note)
		problems = append(check(d, false), old...)
	case command[0] == "list":
		list(d)
	case command[0] == "accept" && len(os.Args) == 5:
		err = accept(os.Args[2], os.Args[3], os.Args[4])
	default:
		err = fmt.Errorf("%q: must be check, list, or accept FILE COMMIT TO", command[0])
	}
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
