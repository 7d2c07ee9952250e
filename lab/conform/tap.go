package conform

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// TAP runs cases in their order, and writes the results as TAP version 14 (Test Anything Protocol): a test point for
// each case, with the rule that was not kept in YAML. It returns how many failed. name names the point of a case.
func TAP(ctx context.Context, w io.Writer, s *Suite, cases []Case, name func(Case) string) (failed int, err error) {
	for i, c := range cases {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintln(w, "Bail out! interrupted")
			return failed, ctx.Err()
		}
		point := fmt.Sprintf("ok %d - %s\n", i+1, strings.ReplaceAll(name(c), "#", `\#`))
		if f := s.Try(ctx, c); f != nil {
			failed++
			point = fmt.Sprintf("not %s  ---\n  expected: %s\n  received: %s\n  ...\n", point,
				strconv.Quote(f.Expected), strconv.Quote(f.Received))
		}
		if _, err := io.WriteString(w, point); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// bySection joins cases, and sorts them by section.
func bySection(groups ...[]Case) []Case {
	cases := slices.Concat(groups...)
	slices.SortStableFunc(cases, func(a, b Case) int {
		return slices.Compare(numbers(a.Section), numbers(b.Section))
	})
	return cases
}

// numbers returns the number of the draft, 18 if the section names none, and then the numbers of the section.
func numbers(section string) (n []int) {
	draft, section, later := strings.Cut(section, " ")
	if !later {
		draft, section = "18", draft
	}
	for _, part := range append([]string{draft}, strings.Split(section, ".")...) {
		number, _ := strconv.Atoi(part)
		n = append(n, cmp.Or(number, -1))
	}
	return n
}
