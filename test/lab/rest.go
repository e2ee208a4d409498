package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// REST is a client of the REST API on a unix socket.
type REST struct {
	socket string
	client *http.Client
}

// NewREST returns a client of the REST API on a unix socket.
func NewREST(socket string) *REST {
	return &REST{socket: socket, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Agent returns a client of the REST API of a node's agent.
func (l *Lab) Agent(node string) *REST { return NewREST(l.AgentSocket(node)) }

// Ready returns nil if the process is ready, otherwise the reason.
func (r *REST) Ready(ctx context.Context) error {
	return getOK(ctx, r.client, "http://contiv/readiness")
}

// Get decodes the JSON response to GET path into out.
func (r *REST) Get(ctx context.Context, path string, out any) error {
	return r.do(ctx, http.MethodGet, path, out)
}

// Post sends an empty POST and decodes the JSON response unless out is nil.
func (r *REST) Post(ctx context.Context, path string, out any) error {
	return r.do(ctx, http.MethodPost, path, out)
}

func (r *REST) do(ctx context.Context, method, path string, out any) error {
	body, err := request(ctx, r.client, method, "http://contiv"+path)
	if err != nil {
		return fmt.Errorf("%s %s on %s: %w", method, path, r.socket, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s %s on %s: unexpected answer: %w", method, path, r.socket, err)
	}
	return nil
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	_, err := request(ctx, client, http.MethodGet, url)
	return err
}

func complaint(body []byte) string {
	var answer struct{ Error string }
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		return answer.Error
	}
	return strings.TrimSpace(string(bytes.ToValidUTF8(body, nil)))
}

func request(ctx context.Context, client *http.Client, method, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("status %s: %s", resp.Status, complaint(body))
	}
	return body, nil
}
