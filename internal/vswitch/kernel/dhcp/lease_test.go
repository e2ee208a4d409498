package dhcp

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func TestLeaseOfAnAnswer(t *testing.T) {
	sent := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return sent.Add(d) }
	router := dhcpv4.WithRouter(net.IPv4(10, 0, 0, 1))
	mask := dhcpv4.WithNetmask(net.CIDRMask(24, 32))
	for name, test := range map[string]struct {
		ip            net.IP
		options       []dhcpv4.Modifier
		address       string // "": an error
		routes        []string
		renew, rebind time.Time
		expires       time.Time
	}{
		"defaults": {
			net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{mask, router, dhcpv4.WithLeaseTime(800)},
			"10.0.0.7/24", []string{"0.0.0.0/0 via 10.0.0.1"}, at(400 * time.Second), at(700 * time.Second), at(800 * time.Second),
		},
		"times of the server": {
			net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{
				mask, dhcpv4.WithLeaseTime(800), dhcpv4.WithOption(dhcpv4.OptRenewTimeValue(100 * time.Second)), dhcpv4.WithOption(dhcpv4.OptRebindingTimeValue(200 * time.Second)),
			},
			"10.0.0.7/24", nil, at(100 * time.Second), at(200 * time.Second), at(800 * time.Second),
		},
		"times that contradict each other": {
			net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{mask, dhcpv4.WithLeaseTime(800), dhcpv4.WithOption(dhcpv4.OptRenewTimeValue(900 * time.Second))},
			"10.0.0.7/24", nil, at(400 * time.Second), at(700 * time.Second), at(800 * time.Second),
		},
		"without end": {
			net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{mask, dhcpv4.WithLeaseTime(0xffffffff)},
			"10.0.0.7/24", nil, time.Time{}, time.Time{}, time.Time{},
		},
		"classless routes instead of the router": {
			net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{mask, router, dhcpv4.WithLeaseTime(0xffffffff), dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(
				&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4(10, 8, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}, Router: net.IPv4(10, 0, 0, 2).To4()},
				&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4(10, 9, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}, Router: net.IPv4zero.To4()},
			))},
			"10.0.0.7/24", []string{"10.8.0.0/16 via 10.0.0.2", "10.9.0.0/16 on the link"}, time.Time{}, time.Time{}, time.Time{},
		},
		"without mask":       {net.IPv4(10, 0, 0, 7), []dhcpv4.Modifier{dhcpv4.WithLeaseTime(0xffffffff)}, "10.0.0.7/8", nil, time.Time{}, time.Time{}, time.Time{}},
		"without lease time": {ip: net.IPv4(10, 0, 0, 7), options: []dhcpv4.Modifier{mask}},
		"without address":    {ip: net.IPv4zero, options: []dhcpv4.Modifier{mask, dhcpv4.WithLeaseTime(800)}},
		"multicast address":  {ip: net.IPv4(224, 0, 0, 1), options: []dhcpv4.Modifier{mask, dhcpv4.WithLeaseTime(800)}},
		"mask that is none":  {ip: net.IPv4(10, 0, 0, 7), options: []dhcpv4.Modifier{dhcpv4.WithNetmask(net.IPv4Mask(255, 0, 255, 0)), dhcpv4.WithLeaseTime(800)}},
	} {
		t.Run(name, func(t *testing.T) {
			ack, err := dhcpv4.New(append(test.options, dhcpv4.WithYourIP(test.ip), dhcpv4.WithMessageType(dhcpv4.MessageTypeAck))...)
			if err != nil {
				t.Fatal(err)
			}
			l, err := leaseOf(ack, sent)
			if err != nil || test.address == "" {
				if (err == nil) != (test.address != "") {
					t.Errorf("got %v, %v", l, err)
				}
				return
			}
			var routes []string
			for _, r := range l.Routes {
				text := r.Destination.String() + " on the link"
				if r.Gateway.IsValid() {
					text = r.Destination.String() + " via " + r.Gateway.String()
				}
				routes = append(routes, text)
			}
			if l.Address != netip.MustParsePrefix(test.address) || !slices.Equal(routes, test.routes) ||
				!l.Renew.Equal(test.renew) || !l.Rebind.Equal(test.rebind) || !l.Expires.Equal(test.expires) {
				t.Errorf("got %+v, want %+v", l, test)
			}
		})
	}
}
