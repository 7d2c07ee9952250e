package main

import (
	"os"

	"sluice/lab"
)

func init() {
	// With SLUICE_REQUIRE_KERNEL a script that needs the lab runs in any case, and fails where it cannot.
	scriptConditions["lab"] = func() bool { return lab.Permitted() == nil || os.Getenv("SLUICE_REQUIRE_KERNEL") != "" }
}
