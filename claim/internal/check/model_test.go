package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// walk is a model whose states are numbers, and whose rules lead from some to others.
func walk(fair bool, leads map[int][]int) Model[int] {
	return Model[int]{
		Rules: []Rule[int]{
			{Name: "on", Fair: fair, Next: func(s int) []int { return leads[s] }},
			{Name: "turn", Fair: true, Next: func(s int) []int {
				if s == 2 {
					return []int{3}
				}
				return nil
			}},
		},
		Wrong: func(s int) string {
			if s == 9 {
				return "nine"
			}
			return ""
		},
		Owes: func(s int) string {
			if s == 2 || s == 3 {
				return "owes"
			}
			return ""
		},
	}
}

func TestCheck(t *testing.T) {
	type leads map[int][]int
	const stays = "owes for ever"
	for name, c := range map[string]struct {
		fair  bool
		leads leads
		wrong string
		trace []string
	}{
		"all is well":           {true, leads{0: {1}, 1: {0, 4}}, "", nil},
		"the shortest way":      {true, leads{0: {1, 5}, 1: {6}, 6: {9}, 5: {9}}, "nine", []string{"on", "on", "9"}},
		"it owes and leads on":  {true, leads{0: {2}, 3: {0}}, "", nil},
		"it need not lead on":   {false, leads{0: {2}, 3: {0}}, stays, []string{"on", "turn", "3"}},
		"it leads nowhere":      {true, leads{0: {2}}, stays, []string{"on", "turn", "3"}},
		"a circle that owes":    {true, leads{0: {2}, 3: {2}}, stays, []string{"on", "2"}},
		"a rule leads two ways": {true, leads{0: {3}, 3: {3, 1}}, stays, []string{"on", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := walk(c.fair, c.leads).Check()
			require.Equal(t, c.wrong, r.Wrong)
			require.Equal(t, c.trace, r.Trace)
		})
	}
}
