package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sluice": main}) }

// scriptConditions are what scripts ask for with [name].
var scriptConditions = map[string]func() bool{}

// TestScripts runs testdata/*.txtar: what users type and what they read.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(name string) (bool, error) {
			if holds, ok := scriptConditions[name]; ok {
				return holds(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("UNIQUE", fmt.Sprintf("test-%d", os.Getpid()))
			return nil
		},
	})
}
