package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/lab"
)

func init() { scriptCommands["holds"] = holds }

// leaks matches the metrics of a relay that grow with what it holds.
var leaks = regexp.MustCompile(`(?m)^(go_goroutines|sluice_relay_(?:sessions|tracks|` +
	`upstream_subscriptions|downstream_subscriptions|cache_bytes|cache_groups)) (.*)$`)

// holds is "holds LAB FILE": it writes what the relay of a lab holds into a file. If the file exists, it waits until
// the relay holds no more than that again.
func holds(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[1])
	before, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		ts.Check(os.WriteFile(path, []byte(format(relayHolds(ts, args[0]))), 0o600))
		return
	}
	ts.Check(err)
	limit := parseLeaks(string(before))
	var now map[string]float64
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		now = relayHolds(ts, args[0])
		if within(now, limit) {
			return
		}
	}
	ts.Fatalf("the relay still holds\n%sand held at first\n%s", format(now), before)
}

// relayHolds reads the metrics of the relay in a lab, as soon as it answers.
func relayHolds(ts *testscript.TestScript, name string) map[string]float64 {
	const metrics = "http://127.0.0.1:4480/metrics"
	ts.Check(ts.Exec("sluice-lab", "lab", "exec", "--name", name, lab.RelayName, "--",
		"curl", "--silent", "--fail", "--retry", "20", "--retry-delay", "1", "--retry-connrefused", metrics))
	return parseLeaks(ts.ReadFile("stdout"))
}

func parseLeaks(text string) map[string]float64 {
	values := make(map[string]float64)
	for _, m := range leaks.FindAllStringSubmatch(text, -1) {
		values[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	return values
}

// lazyGoroutines is how many goroutines a relay may have started since it was empty, to keep. A session has more.
const lazyGoroutines = 4

func within(now, limit map[string]float64) bool {
	for name, value := range now {
		most := limit[name]
		if name == "go_goroutines" {
			most += lazyGoroutines
		}
		if value > most {
			return false
		}
	}
	return len(now) == len(limit)
}

func format(values map[string]float64) string {
	var b strings.Builder
	for name, value := range values {
		fmt.Fprintf(&b, "%s %v\n", name, value)
	}
	return b.String()
}
