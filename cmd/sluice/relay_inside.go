package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"sluice/internal/service"
	"sluice/server"
	"sluice/server/inside"
	"sluice/web"
)

// insideFlag is the flag about who may look inside the relay, and the snapshots to see there.
type insideFlag struct {
	tokenFile string

	guard  *inside.Guard  // set by open
	events *inside.Stream // set by show: one for the admin address and the web page
}

func (f *insideFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tokenFile, "admin-token-file", "",
		"`file` with the token that everybody needs for /inside and /api; without it only programs on this machine "+
			"get in")
}

// open reads the token.
func (f *insideFlag) open() (err error) {
	if f.guard, err = inside.NewGuard(f.tokenFile); err != nil {
		return fmt.Errorf("--admin-token-file: %w", err)
	}
	return nil
}

// show returns the handler of a server's snapshots, as events. The first call decides whose.
func (f *insideFlag) show(s *server.Server) http.Handler {
	if f.events == nil {
		f.events = inside.NewStream(inside.Of(s))
	}
	return f.guard.Wrap(f.events)
}

// newSite makes a site with /inside.
func (f *insideFlag) newSite(cfg web.Config, s *server.Server) (*web.Site, error) {
	page, err := web.Page("inside")
	if err != nil {
		return nil, err
	}
	site, err := web.New(cfg)
	if err != nil {
		return nil, err
	}
	site.Handle("GET /inside", f.guard.Wrap(page))
	site.Handle("GET /inside/events", f.show(s))
	return site, nil
}

// addTo adds the page to an admin address, which has it also where the relay serves no page to others.
func (f *insideFlag) addTo(a *service.Admin, s *server.Server) error {
	site := s.Handler()
	if site == nil {
		var err error
		if site, err = f.newSite(web.Config{}, s); err != nil {
			return err
		}
	}
	a.Mux.Handle("GET /inside", site)
	a.Mux.Handle("GET /inside/events", f.show(s))
	a.Mux.Handle("GET /assets/", site)
	a.OnClose(f.events.Close)
	return nil
}
