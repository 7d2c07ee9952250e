package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sluice": main}) }

func TestScripts(t *testing.T) { clitest.Run(t, nil) }
