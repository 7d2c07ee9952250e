// Package control lets other processes use the lab that one process holds: sluice-lab lab up serves requests as a
// [Server], and the other commands are a [Client].
//
// The server listens on an abstract Unix socket with the lab's name. A [Client] can ask for the status, change links,
// take the lab down, and replace its own process by one inside a host ([Client.Exec]). Both sides verify that the other
// process belongs to root or to the same user.
package control
