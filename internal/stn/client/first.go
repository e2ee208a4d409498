package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/contiv/contiv/api/contiv/stn"
)

// notCards lists name prefixes of devices that are not network cards.
var notCards = []string{"lo", "vir", "docker", "vpp", "veth", "br-"}

// Claim is Steal, but for "" it selects the claimed card, or else the host's first card that is up.
func (c *Client) Claim(ctx context.Context, name string, dhcp bool) (*stn.STNReply, error) {
	if name == "" {
		r, err := c.Stolen(ctx, "")
		if err != nil {
			return nil, err
		}
		if name = r.GetInterfaceName(); name == "" {
			if name, err = first(); err != nil {
				return nil, err
			}
		}
	}
	return c.Steal(ctx, name, dhcp)
}

func first() (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("listing the interfaces of the host: %w", err)
	}
next:
	for _, i := range all {
		for _, prefix := range notCards {
			if strings.HasPrefix(i.Name, prefix) {
				continue next
			}
		}
		if i.Flags&net.FlagUp != 0 {
			return i.Name, nil
		}
	}
	return "", errors.New("the host has no network card that is up: name the one to steal in stealInterface")
}
