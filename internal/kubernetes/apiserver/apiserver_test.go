package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesOfTheAPIServer(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "[]",
		"https://192.168.16.254:6443":  "[192.168.16.254:6443]",
		"192.168.16.254:6443":          "[192.168.16.254:6443]",
		"https://192.168.16.254":       "[192.168.16.254:443]",
		"http://192.168.16.254/prefix": "[192.168.16.254:80]",
		"[fd16::254]:6443":             "[[fd16::254]:6443]",
		"https://api.example:6443":     "[10.0.0.1:6443 10.0.0.2:6443]",
		"https://missing.example:6443": "[]",
		"10.0.0.9:6443,api.example":    "[10.0.0.1:443 10.0.0.2:443 10.0.0.9:6443]",
	} {
		t.Run(text, func(t *testing.T) {
			var texts []string
			if text != "" {
				texts = strings.Split(text, ",")
			}
			a, err := Parse(texts)
			if err != nil {
				t.Fatal(err)
			}
			known := true
			a.look = func(_ context.Context, host string) ([]netip.Addr, error) {
				if host != "api.example" || !known {
					return nil, errors.New("no such host")
				}
				return []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.1")}, nil
			}
			for _, known = range []bool{true, false} {
				a.resolve(context.Background(), slog.New(slog.DiscardHandler))
				if got := fmt.Sprint(a.All()); got != want {
					t.Errorf("resolved: %v: %s, want %s", known, got, want)
				}
			}
		})
	}
	for _, text := range []string{"https://", "192.168.16.254:0", "192.168.16.254:70000", "https://192.168.16.254:port"} {
		if a, err := Parse([]string{text}); err == nil || !strings.Contains(err.Error(), "--api-server") {
			t.Errorf("%q: %v, %v", text, a.All(), err)
		}
	}
}
