package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// controlSocket, in the data directory, serves snapshots and restorations to programs of the same
// user. It grants no more than read and write access to the directory does.
const controlSocket = "contiv-etcd.sock"

var errStarting = errors.New("etcd is starting, try again when it is ready")

// Serve runs a Server until ctx ends. The control socket of the data directory serves AskSnapshot
// and AskRestore. Serve calls ready once, when clients can read and write.
func Serve(ctx context.Context, opts Options, ready func(*Server)) error {
	opts = opts.withDefaults()
	h := &host{ctx: ctx, opts: opts, changed: make(chan struct{}, 1)}
	defer h.close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /snapshot", h.snapshot)
	mux.HandleFunc("PUT /restore", h.restore)
	control := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer control.Close()
	// A member may wait long for the others. The socket already answers with that reason.
	server, err := startLocked(ctx, opts, func() error {
		listener, err := listenControl(opts.DataDir)
		if err != nil {
			return fmt.Errorf("listen for commands in the data directory: %w", err)
		}
		serving.Go(func() { control.Serve(listener) })
		return nil
	})
	if err != nil {
		return err
	}
	h.started(server)
	ready(server)
	return h.wait()
}

// with returns the options that restart the server at the same addresses.
func (o Options) with(s *Server) Options {
	o.ClientURLs, o.PeerURL = s.Endpoints(), s.urls.peer.String()
	if len(s.urls.health) > 0 {
		o.HealthURL = s.urls.health[0].String()
	}
	return o
}

type host struct {
	ctx  context.Context
	opts Options

	mu      sync.Mutex
	server  *Server // nil while starting, or after a failed restart
	changed chan struct{}
	failed  error
}

func (h *host) started(s *Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.server, h.opts = s, h.opts.with(s)
}

func (h *host) current() (*Server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server, h.failed
}

func (h *host) serves() (*Server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.server != nil || h.failed != nil:
		return h.server, h.failed
	case len(h.opts.Members) > 0:
		return nil, fmt.Errorf("%w; it may be waiting for other members", errStarting)
	}
	return nil, errStarting
}

func (h *host) wait() error {
	for {
		server, failed := h.current()
		if failed != nil {
			return failed
		}
		select {
		case <-h.ctx.Done():
			return nil
		case <-h.changed:
		case err, ok := <-server.Done():
			if now, failed := h.current(); now != server || failed != nil {
				continue
			}
			if ok {
				return err
			}
			return errors.New("etcd stopped unexpectedly: see the log")
		}
	}
}

func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		h.server.Close()
	}
}

func (h *host) snapshot(w http.ResponseWriter, _ *http.Request) {
	server, err := h.serves()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := server.Snapshot(w); err != nil {
		h.opts.Logger.Error("Sending a snapshot failed", "error", err)
		panic(http.ErrAbortHandler) // the client must notice that the snapshot is incomplete
	}
}

func (h *host) restore(w http.ResponseWriter, r *http.Request) {
	if len(h.opts.Members) > 0 {
		http.Error(w, "one of several members cannot be restored alone: stop all members, and run contiv-etcd restore with --name and --member on each node", http.StatusConflict)
		return
	}
	if _, err := h.serves(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	file := filepath.Join(h.opts.DataDir, "restore.db")
	defer os.Remove(file)
	err := WriteSnapshotFile(file, func(f io.Writer) error {
		_, err := io.Copy(f, r.Body)
		return err
	})
	if err == nil {
		err = h.replace(file)
	}
	if err != nil {
		h.opts.Logger.Error("Restoring the data of etcd failed", "error", err)
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	h.opts.Logger.Warn("Restored the data of etcd from a snapshot", "before", filepath.Join(h.opts.DataDir, ReplacedDir))
}

// replace restarts the server with the data of the snapshot or, if that fails, with its previous
// data.
func (h *host) replace(file string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	h.server.Close()
	restored := Restore(file, h.opts)
	server, err := Start(h.ctx, h.opts)
	if err != nil {
		h.failed = fmt.Errorf("restart after a restore: %w", err)
	} else {
		h.server = server
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
	return errors.Join(restored, h.failed)
}

// The path of a socket has at most 108 bytes. Client and server use the path of the directory's
// descriptor instead.

func listenControl(dir string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := os.Remove(filepath.Join(dir, controlSocket)); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: controlName(d), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path's descriptor is closed; the next start removes the socket
	return l, os.Chmod(filepath.Join(dir, controlSocket), 0o600)
}

func controlName(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), controlSocket)
}

// AskSnapshot writes a snapshot of the data directory of a running Serve to w. The caller checks
// that it is complete, as WriteSnapshotFile does.
func AskSnapshot(ctx context.Context, dir string, w io.Writer) error {
	response, err := ask(ctx, dir, http.MethodGet, "/snapshot", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(w, response.Body)
	return err
}

// AskRestore makes the Serve of the data directory replace its data, and returns when it has. It
// returns ErrNotServed if no Serve is running; then call Restore.
func AskRestore(ctx context.Context, dir string, snapshot io.Reader) error {
	response, err := ask(ctx, dir, http.MethodPut, "/restore", snapshot)
	if err == nil {
		response.Body.Close()
	}
	return err
}

func ask(ctx context.Context, dir, method, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://contiv-etcd"+path, body)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return (&net.Dialer{}).DialContext(ctx, "unix", controlName(d))
	}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w %s", ErrNotServed, dir)
	case err != nil:
		return nil, fmt.Errorf("call the contiv-etcd of %s: %w", dir, err)
	case response.StatusCode != http.StatusOK:
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("contiv-etcd refused: %s", strings.TrimSpace(string(text)))
	}
	return response, nil
}
