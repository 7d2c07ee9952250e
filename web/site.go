package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

//go:generate sh -c "go run sluice/server/inside/types >src/inside/snapshot.ts"
//go:generate npm run --silent generate

//go:embed dist
var dist embed.FS

// answerTimeout is how long an answer may take to be sent. The largest file is a few hundred kilobytes.
const answerTimeout = 30 * time.Second

// Relay has the facts about the relay that the page needs: /relay.json.
type Relay struct {
	// Port is the UDP port to which the page opens its WebTransport session.
	Port int `json:"port"`
	// Certificate is the SHA-256 of the relay's certificate in hexadecimal, if no authority has signed it.
	Certificate string `json:"certificate,omitempty"`
	// Viewers tells that /viewers answers.
	Viewers bool `json:"viewers"`
	// Version is the version of the program.
	Version string `json:"version"`
}

// Config is the configuration of a [Site].
type Config struct {
	Relay
	// CountViewers returns how many sessions watch the broadcast in a namespace. The authority belongs to the page's
	// session. Default: nobody may know.
	CountViewers func(authority string, ns moqt.Namespace) int
	// SamePort tells that the page is at the TCP port with the number of Port. It is then announced that HTTP/3 is
	// there, unless no authority has signed the certificate.
	SamePort bool
	// Other is the URL of another relay to which the relay may send the page (GOAWAY), or nil. The page may connect to
	// no other one.
	Other *transport.URL
}

// Site answers requests for the page. Its methods may be called on any goroutine.
type Site struct {
	cfg     Config
	mux     *http.ServeMux
	viewers *viewersLimit
}

// New makes a Site.
func New(cfg Config) (*Site, error) {
	cfg.Viewers = cfg.CountViewers != nil
	s := &Site{cfg: cfg, mux: http.NewServeMux(), viewers: newViewersLimit()}
	if err := s.addFiles(); err != nil {
		return nil, err
	}
	s.mux.HandleFunc("GET /relay.json", s.serveRelay)
	s.mux.HandleFunc("GET /certificate.sha256", s.serveCertificate)
	s.mux.HandleFunc("GET /viewers", s.serveViewers)
	return s, nil
}

// Handle adds a page. It is called before the Site is served.
func (s *Site) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// framed is the page that others may show in a frame.
const framed = "/embed"

// ServeHTTP implements [http.Handler].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.setHeaders(w.Header(), r)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		w.Header().Set("Connection", "close")
		http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
	case r.ContentLength > 0 || r.ContentLength < 0 && r.ProtoMajor < 3: // HTTP/3 does not tell that there is no body
		w.Header().Set("Connection", "close") // otherwise the server reads the body to find the next request
		http.Error(w, "a request must have no body", http.StatusRequestEntityTooLarge)
	default:
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		s.mux.ServeHTTP(w, r)
	}
}

func (s *Site) setHeaders(h http.Header, r *http.Request) {
	ancestors := "'none'"
	if r.URL.Path == framed {
		ancestors = "*"
	} else {
		h.Set("X-Frame-Options", "DENY")
	}
	h.Set("Content-Security-Policy", contentPolicy(s.sessions(r.Host), ancestors))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "geolocation=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-cache")
	if s.cfg.SamePort && s.cfg.Certificate == "" && r.ProtoMajor < 3 && r.TLS != nil {
		h.Set("Alt-Svc", fmt.Sprintf(`h3=":%d"; ma=86400`, s.cfg.Port))
	}
}

// addFiles adds the files of dist: NAME.html as page NAME, index.html as /, all others below /assets/.
func (s *Site) addFiles() error {
	files, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return err
	}
	for _, entry := range files {
		name := entry.Name()
		f, err := newFile(name)
		if err != nil {
			return err
		}
		place := "/assets/" + name
		if page, ok := strings.CutSuffix(name, ".html"); ok {
			place = "/" + page
		}
		switch place {
		case "/index":
			place = "/{$}"
		case "/inside": // not for everybody
			continue
		}
		s.mux.Handle("GET "+place, f)
	}
	return nil
}

// Page returns the page of dist with that name, for those who add it by Handle.
func Page(name string) (http.Handler, error) { return newFile(name + ".html") }

// file is a file of dist. Its content stays in the program's file.
type file struct {
	name, kind, tag string
	packed          func() []byte // in gzip's form, made when somebody first asks for it
}

// kinds are the media types of dist's files. Package mime would read the system's table of all types, and keep it.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

func newFile(name string) (*file, error) {
	f := &file{name: name, kind: kinds[path.Ext(name)]}
	if f.kind == "" {
		return nil, fmt.Errorf("web page: file %s: its media type is not known", name)
	}
	plain, err := f.open()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, plain); err != nil {
		return nil, err
	}
	f.tag = `"` + hex.EncodeToString(sum.Sum(nil)[:12]) + `"`
	f.packed = sync.OnceValue(func() []byte { return pack(plain) })
	return f, nil
}

// open returns the content, which needs no closing.
func (f *file) open() (io.ReadSeeker, error) {
	content, err := dist.Open(path.Join("dist", f.name))
	if err != nil {
		return nil, err
	}
	return content.(io.ReadSeeker), nil // package embed promises that
}

// pack returns a file of dist in gzip's form.
func pack(plain io.ReadSeeker) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = plain.Seek(0, io.SeekStart)
	_, _ = io.Copy(z, plain) // embedded files can be read, and a buffer takes all
	_ = z.Close()
	return slices.Clone(out.Bytes()) // without the buffer's spare room
}

// ServeHTTP implements [http.Handler]. Pages of others may load files below /assets/.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.tag)
	if path.Ext(f.name) != ".html" {
		h.Set("Access-Control-Allow-Origin", "*")
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.packed()))
		return
	}
	content, err := f.open()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, content)
}

// serveRelay tells the page where to open its session. Pages of others need it as well: the web component asks.
func (s *Site) serveRelay(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	writeJSON(w, s.cfg.Relay)
}

func (s *Site) serveCertificate(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Certificate == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// Without a newline: players of moq-dev (@moq/net) take all of it for digits.
	_, _ = io.WriteString(w, s.cfg.Certificate) // fails only if the client has gone
}

func (s *Site) serveViewers(w http.ResponseWriter, r *http.Request) {
	ns := moqt.Namespace(r.URL.Query()["field"])
	switch {
	case s.cfg.CountViewers == nil:
		http.NotFound(w, r)
	case len(ns) == 0 || ns.Validate() != nil:
		http.Error(w, "give the fields of a namespace: /viewers?field=live&field=demo", http.StatusBadRequest)
	case !s.viewers.allow(r.RemoteAddr):
		http.Error(w, "too many ask; try again later", http.StatusTooManyRequests)
	default:
		w.Header().Set("Access-Control-Allow-Origin", "*")
		writeJSON(w, struct {
			Viewers int `json:"viewers"`
		}{s.cfg.CountViewers(s.authority(r.Host), ns)})
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has gone
}

// sessions returns the sources of the page's sessions besides the page's own, at a host: the same name with the relay's
// port, and the relay to which the page may be sent.
func (s *Site) sessions(host string) (sources string) {
	if !s.cfg.SamePort { // else 'self' has the port
		sources = source(nameIn(host), s.cfg.Port)
	}
	if u := s.cfg.Other; u != nil {
		sources += source(u.Host, int(u.Port))
	}
	return sources
}

// authority returns the authority of the URL to which the page at a host opens its session.
func (s *Site) authority(host string) string {
	return net.JoinHostPort(nameIn(host), strconv.Itoa(s.cfg.Port))
}
