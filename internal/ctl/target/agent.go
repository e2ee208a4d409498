package target

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/contiv/contiv/internal/lib/rest"
)

// Agent is the agent of a node.
type Agent struct {
	// Name of the node.
	Name string
	// URL as given.
	URL string

	base     string
	client   *http.Client
	unusable error
	noGRPC   error // nil if the agent may serve gRPC
	// absent is the question appended to the error if the socket does not exist.
	absent string
	// dial connects to a socket of the agent by name. It is nil if the URL has the address.
	dial func(ctx context.Context, socket string) (net.Conn, error)
}

const restSocket = "agent.sock"

const maxIdle = 8

// maxAnswer limits the size of an answer in bytes. An agent may be in hostile hands.
var maxAnswer int64 = 256 << 20 // a variable for tests

// clientOf returns a client that does not follow redirects: agents send none, and a hostile one
// would choose what the administrator's certificate requests elsewhere.
func clientOf(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Dialed returns an agent reached through dial. The URL is for display only.
func Dialed(name, url string, dial func(ctx context.Context, socket string) (net.Conn, error)) *Agent {
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, restSocket) },
		MaxIdleConnsPerHost: maxIdle,
	}
	return &Agent{Name: name, URL: url, base: "http://agent", client: clientOf(transport), dial: dial}
}

// DialGRPC returns the function that connects to the agent's gRPC socket, or nil if GRPCAddress has
// the address.
func (a *Agent) DialGRPC() func(ctx context.Context, address string) (net.Conn, error) {
	if a.dial == nil {
		return nil
	}
	return func(ctx context.Context, _ string) (net.Conn, error) { return a.dial(ctx, GRPCSocket) }
}

// New accepts unix:///path, http://host:port and https://host:port.
func New(name, address string) (*Agent, error) {
	wrong := func(what string) error {
		return fmt.Errorf("agent %s: URL %q: %s: use unix:///PATH, https://HOST:PORT or http://HOST:PORT", name, address, what)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, wrong(err.Error())
	}
	a := &Agent{Name: name, URL: address, base: strings.TrimSuffix(address, "/")}
	// Most commands send only one or two requests.
	transport := &http.Transport{DisableKeepAlives: true}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return nil, wrong("the host is missing")
		}
	case "unix":
		if u.Host != "" || u.Path == "" {
			return nil, wrong("the path must be absolute")
		}
		a.base = "http://agent"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}
	default:
		return nil, wrong("its scheme is not known")
	}
	a.client = clientOf(transport)
	return a, nil
}

func (a *Agent) useTLS(t *tls.Config) {
	a.client = clientOf(&http.Transport{DisableKeepAlives: true, TLSClientConfig: t})
}

// KeepConnections returns a copy of the agent that reuses connections until release is called.
func (a *Agent) KeepConnections() (kept *Agent, release func()) {
	if a.client == nil {
		return a, func() {}
	}
	own, ok := a.client.Transport.(*http.Transport)
	if !ok || !own.DisableKeepAlives {
		return a, func() {}
	}
	keeping := own.Clone()
	keeping.DisableKeepAlives, keeping.MaxIdleConnsPerHost = false, maxIdle
	with := *a
	with.client = clientOf(keeping)
	return &with, keeping.CloseIdleConnections
}

// Served returns an agent with answers from a handler. The URL is for display only.
func Served(name, url string, answers http.Handler) *Agent {
	return &Agent{Name: name, URL: url, base: "http://agent", client: clientOf(served{answers}),
		noGRPC: fmt.Errorf("agent %s: a %s can neither read nor change configuration: use the agent itself", name, url)}
}

// Unusable returns an agent that fails all requests with the reason.
func Unusable(name, url string, reason error) *Agent {
	return &Agent{Name: name, URL: url, unusable: reason}
}

type served struct{ handler http.Handler }

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &response{header: http.Header{}, status: http.StatusOK}
	s.handler.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		Header: w.header, Body: io.NopCloser(&w.body), Request: r,
	}, nil
}

type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header            { return w.header }
func (w *response) WriteHeader(status int)         { w.status = status }
func (w *response) Write(data []byte) (int, error) { return w.body.Write(data) }

// StatusError is an agent's error response.
type StatusError struct {
	Status int
	Text   string
	Body   []byte
}

func (e *StatusError) Error() string { return e.Text }

// ErrTooLong means that an answer has more bytes than any agent sends.
var ErrTooLong = errors.New("more than")

// ErrNotServed means that the agent does not serve the path.
var ErrNotServed = errors.New("is not known there")

// IsNotFound reports whether the agent answered that the object does not exist. A 404 without a
// JSON reason comes from a proxy, not from an agent.
func IsNotFound(err error) bool {
	var e *StatusError
	return errors.As(err, &e) && e.Status == http.StatusNotFound && reasonIn(e.Body) != ""
}

// Get sends a request and decodes the response.
func (a *Agent) Get(ctx context.Context, path string, query url.Values, into any) error {
	return a.do(ctx, http.MethodGet, path, query, nil, into)
}

// Post sends the body as JSON, or no body if it is nil, and decodes the response.
func (a *Agent) Post(ctx context.Context, path string, query url.Values, body, into any) error {
	return a.do(ctx, http.MethodPost, path, query, body, into)
}

func (a *Agent) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	response, data, err := a.ask(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		if response.StatusCode == http.StatusNotFound && (strings.TrimSpace(string(data)) == "404 page not found" || strings.HasSuffix(errorText(response.Status, data), rest.NotServed)) {
			return fmt.Errorf("%s %s %w: the agent runs without Kubernetes (--standalone) or is older than contivctl", method, path, ErrNotServed)
		}
		return &StatusError{response.StatusCode, errorText(response.Status, data), data}
	}
	if err := unmarshal(data, into); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w: check that agent and contivctl have the same version", method, path, err)
	}
	return nil
}

// unmarshal calls UnmarshalJSON directly, because json.Unmarshal scans the data twice before. The
// caller must not change data afterwards.
func unmarshal(data []byte, into any) error {
	switch u := into.(type) {
	case interface{ ReadJSON(string) error }:
		return u.ReadJSON(unsafe.String(unsafe.SliceData(data), len(data)))
	case json.Unmarshaler:
		return u.UnmarshalJSON(data)
	}
	return json.Unmarshal(data, into)
}

// Fetch returns the response unchanged. The caller closes the body. Its read errors are explained
// like other errors. Reading fails with ErrTooLong beyond the limit of all answers.
func (a *Agent) Fetch(ctx context.Context, path string, query url.Values) (status int, body io.ReadCloser, err error) {
	response, err := a.send(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, &answered{ReadCloser: response.Body, agent: a, request: http.MethodGet + " " + path, left: maxAnswer}, nil
}

// answered is the body of an answer. left counts the bytes that may still be read.
type answered struct {
	io.ReadCloser
	agent   *Agent
	request string
	left    int64
}

func (b *answered) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		b.left = 0
		return n - 1, fmt.Errorf("agent %s answers %s with %w %d MiB: is it an agent of Contiv?", b.agent.Name, b.request, ErrTooLong, maxAnswer>>20)
	}
	if err != nil && err != io.EOF {
		err = b.agent.unreachable(err)
	}
	return n, err
}

func (a *Agent) ask(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, []byte, error) {
	ctx, done := bounded(ctx)
	defer done()
	response, err := a.send(ctx, method, path, query, body)
	if err != nil {
		return nil, nil, err
	}
	content := &answered{ReadCloser: response.Body, agent: a, request: method + " " + path, left: maxAnswer}
	defer content.Close()
	var data bytes.Buffer
	if announced := response.ContentLength; announced > 0 && announced <= maxAnswer {
		data.Grow(int(announced) + bytes.MinRead)
	}
	if _, err := data.ReadFrom(content); err != nil {
		return nil, nil, err
	}
	return response, data.Bytes(), nil
}

func (a *Agent) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	if err := cmp.Or(a.unusable, failed(ctx, a)); err != nil {
		return nil, err
	}
	target := a.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		explained := a.unreachable(err)
		remember(ctx, a, err, explained)
		return nil, explained
	}
	return response, nil
}

func errorText(status string, body []byte) string {
	if reason := reasonIn(body); reason != "" {
		return reason
	}
	if text := strings.TrimSpace(string(body)); text != "" && len(text) < 200 && !strings.ContainsAny(text, "{<") {
		return status + ": " + text
	}
	return status
}

// reasonIn returns the error in an agent's response, or "".
func reasonIn(body []byte) string {
	var e rest.ErrorBody
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	return e.Error
}

// UnreachableError means that no response arrived: the connection was refused or broke, or the
// socket does not exist.
type UnreachableError struct {
	url, hint string
	err       error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("unreachable at %s: %v%s", e.url, e.err, e.hint)
}
func (e *UnreachableError) Unwrap() error { return e.err }

func (a *Agent) unreachable(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		err = operation.Err // the message already has the address
	}
	e := &UnreachableError{url: a.URL, err: err}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		e.hint = ": does the agent run?"
		if errors.Is(err, os.ErrNotExist) && a.absent != "" {
			e.hint = a.absent
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.err = fmt.Errorf("connection lost (%w)", err)
		e.hint = ": does the agent run?"
	case errors.Is(err, os.ErrPermission):
		e.hint = ": use the agent's user, or root"
	case errors.Is(err, context.DeadlineExceeded):
		e.err = errors.New("no answer in time (see --timeout)")
	}
	return e
}

// Answer is the answer of one agent.
type Answer[T any] struct {
	Agent *Agent
	Value T
	Err   error
}

// Ask asks all agents concurrently and returns the answers in the order of the agents.
func Ask[T any](ctx context.Context, agents []*Agent, question func(context.Context, *Agent) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(agents))
	var all sync.WaitGroup
	progress := begin(ctx, Names(agents))
	for i, a := range agents {
		all.Go(func() {
			value, err := question(ctx, a)
			answers[i] = Answer[T]{a, value, err}
			progress.done(a.Name)
		})
	}
	all.Wait()
	return answers
}

// GetAll sends the same request to all agents.
func GetAll[T any](ctx context.Context, agents []*Agent, path string, query url.Values) []Answer[T] {
	return Ask(ctx, agents, func(ctx context.Context, a *Agent) (value T, err error) {
		err = a.Get(ctx, path, query, &value)
		return value, err
	})
}

const (
	// GRPCSocket, next to the REST socket, and GRPCPort are the agents' default gRPC addresses.
	GRPCSocket = "grpc.sock"
	GRPCPort   = "9111"
)

// GRPCAddress returns the expected gRPC address of the agent and whether it uses TLS.
func (a *Agent) GRPCAddress() (address string, secure bool, err error) {
	if err := cmp.Or(a.unusable, a.noGRPC); err != nil {
		return "", false, err
	}
	if a.dial != nil {
		return "passthrough:///" + a.Name, false, nil
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return "", false, err
	}
	if u.Scheme == "unix" {
		return "unix://" + filepath.Join(filepath.Dir(u.Path), GRPCSocket), false, nil
	}
	return net.JoinHostPort(u.Hostname(), GRPCPort), u.Scheme == "https", nil
}
