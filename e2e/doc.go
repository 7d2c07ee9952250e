// Package e2e tests the programs sluice and sluice-lab together: a publisher, a relay and players as processes, on
// loopback and in labs. Package e2e/interop does the same with the clients of others.
//
// The scripts in testdata are what users type and what they read; package clitest explains their commands.
package e2e
