package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"

	"github.com/prometheus/procfs"
)

var errNoSocket = errors.New("no socket of this machine has sent the request")

// SameUser passes requests that change something to next only if root, or the user as whom the relay runs, has sent
// them on this machine: it is for an API that asks for no token. Only Linux tells who it was.
func SameUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			user, err := userOf(r.RemoteAddr, fmt.Sprint(own))
			if err == nil && user != 0 && user != uint64(os.Geteuid()) {
				err = fmt.Errorf("user %d has sent the request", user)
			}
			if err != nil {
				err = fmt.Errorf("without --admin-token-file only root and the relay's user change anything: %w", err)
			}
			if refuse(w, err, http.StatusForbidden) {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// userOf returns the ID of the user who has a TCP connection's socket on this machine, from one address to another.
func userOf(from, to string) (uint64, error) {
	local, err := netip.ParseAddrPort(from)
	remote, err2 := netip.ParseAddrPort(to)
	fs, err3 := procfs.NewFS("/proc/self") // the package's unit shows processes in /proc only
	if err = errors.Join(err, err2, err3); err != nil {
		return 0, err
	}
	//lint:ignore SA1019 sock_diag, by netlink, is a module that a machine may lack
	four, err := fs.NetTCP()
	//lint:ignore SA1019 as above; a socket of IPv6 can have an address of IPv4
	six, err2 := fs.NetTCP6()
	for _, s := range append(procfs.NetTCP(six), four...) {
		// A socket that was closed has no inode, and seems to be root's.
		if s.Inode != 0 && is(local, s.LocalAddr, s.LocalPort) && is(remote, s.RemAddr, s.RemPort) {
			return s.UID, nil
		}
	}
	return 0, errors.Join(errNoSocket, err, err2)
}

func is(a netip.AddrPort, ip net.IP, port uint64) bool {
	other, _ := netip.AddrFromSlice(ip)
	return a.Addr().Unmap().WithZone("") == other.Unmap() && uint64(a.Port()) == port
}
