// Package clitest holds helpers for tests of the commands: scripts of what users type and read, and the programs that
// they run.
//
// A script is a file testdata/*.txtar in the form of [testscript]. [Run] runs all scripts of a package, with these
// commands besides testscript's:
//
//	await [ADDRESS]       wait until the relay at $ADMIN, or at ADDRESS, is ready; "! await" until it is not
//	get PATH FILE         save the answer of the admin address; "! get" expects another status than 200
//	shows PATH PATTERN    wait until the answer of the admin address matches; "! shows" until it does not
//	exits CODE COMMAND    run a command that exits with this code
//	term COMMAND          send SIGTERM to sluice COMMAND in the background
//	hangup COMMAND        send SIGHUP to it
//	grown FILE BYTES      wait until a file has at least BYTES bytes
//	says FILE PATTERN     wait until a file matches
//	uplab NAME ARGUMENTS  sluice-lab lab up, for a lab that ends with the script
//	cutclip DURATION FILE write the sample clip, cut or repeated to a duration
//
// The condition [check] holds under make check, [lab] where labs can be built, [systemd] where systemd is installed.
package clitest
