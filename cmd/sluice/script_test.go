package main

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sluice": main}) }

// scriptConditions are what scripts ask for with [name], scriptCommands what they run besides programs.
var (
	scriptConditions = map[string]func() bool{}
	scriptCommands   = map[string]func(ts *testscript.TestScript, neg bool, args []string){}
)

// TestScripts runs testdata/*.txtar: what users type and what they read.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata",
		Cmds: scriptCommands,
		Condition: func(name string) (bool, error) {
			if holds, ok := scriptConditions[name]; ok {
				return holds(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("UNIQUE", fmt.Sprintf("test-%d", os.Getpid()))
			return errors.Join(setRelayEnv(env), setRTTEnv(env))
		},
	})
}
