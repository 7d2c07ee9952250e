// Package cli has the code that the programs share: how a program starts, logs, shows progress, reports errors and
// ends.
//
// A command's main package describes itself as a [Program] and calls [Main], which makes the root command, runs the
// command line until it ends or a signal ends it, and returns the exit code. A command gets all that it may use of
// its process as an [Environment], so that tests can replace it.
//
//	func main() { os.Exit(cli.Main(program)) }
//
// An error is written once, by Main: in lower case, behind the name of the program. Its exit code follows from its
// type: a [UsageError] is the user's mistake in the command line, Program.ExitCode knows the errors of the program's
// own packages. Errors of flags have the form "--flag: value: must be …", see package bounds.
package cli
