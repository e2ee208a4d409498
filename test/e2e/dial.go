package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// answerTimeout bounds an answer. A client that gives up does not end the dialing.
const answerTimeout = 5 * time.Second

// HTTPClient returns a client in a network namespace of the cluster's lab. It keeps
// no connections.
func HTTPClient(netns string) *http.Client {
	return &http.Client{Timeout: answerTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return Dial(ctx, netns, address)
		},
	}}
}

// Dial connects to a TCP address from a network namespace of the cluster's lab.
func Dial(ctx context.Context, netns, address string) (conn net.Conn, err error) {
	err = lab.InNetns(lab.NetnsPath(netns), func() error {
		conn, err = (&net.Dialer{Timeout: answerTimeout}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// getOK requests a page from a network namespace.
func getOK(ctx context.Context, netns, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := HTTPClient(netns).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
