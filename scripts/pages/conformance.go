package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// point matches a test point of sluice-lab conform: whether it failed, and its section.
var point = regexp.MustCompile(`(?m)^(not )?ok .*§((?:19 |20 )?[0-9.]+)`)

// conformance returns a row for each section in which a relay has failed, and one for all, of the files of relays.
func conformance(relays ...string) (string, error) {
	passed, all := make(map[string]int), make(map[string]int) // by relay and section
	var sections []string
	for _, relay := range relays {
		text, err := os.ReadFile("docs/results/conformance/" + relay + ".tap")
		if err != nil {
			return "", err
		}
		for _, m := range point.FindAllStringSubmatch(string(text), -1) {
			for _, section := range []string{"§" + m[2], "all"} {
				if all[relay+section]++; m[1] == "" {
					passed[relay+section]++
				}
				if section != "all" && !slices.Contains(sections, section) {
					sections = append(sections, section)
				}
			}
		}
	}
	var rows strings.Builder
	for _, section := range append(sections, "all") {
		row, failed := "| "+section, section == "all"
		for _, relay := range relays {
			if row += " |"; all[relay+section] > 0 {
				row += fmt.Sprintf(" %d of %d", passed[relay+section], all[relay+section])
			}
			failed = failed || passed[relay+section] < all[relay+section]
		}
		if failed {
			rows.WriteString(row + " |\n")
		}
	}
	return rows.String(), nil
}
