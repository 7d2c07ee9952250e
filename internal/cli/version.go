package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set when a release is built (see the Makefile).
var version string

// Version returns the version that the Makefile sets, or "".
func Version() string { return version }

// VersionText returns a program's name and version, the drafts of MoQT that it speaks, its Go version and its platform.
func VersionText(name string) string { return name + " " + versionText() }

// versionText returns the same without the name. Without the Makefile, the version is the commit.
func versionText() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
				v = s.Value
			}
		}
	}
	if v == "" {
		v = "unknown"
	}
	return fmt.Sprintf("%s (moqt-16, 18 to 22, %s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
