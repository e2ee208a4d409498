package kubeproxy

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace runs fn, and programs that it starts, in a new network namespace.
func inNamespace(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	done := make(chan error)
	go func() { // the thread stays locked and ends
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			fn()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestFoundInEachMode(t *testing.T) {
	for name, test := range map[string]struct {
		commands []string
		want     string
	}{
		"nothing":                 {nil, ""},
		"others' tables":          {[]string{"nft add table ip nat", "nft add chain ip nat KUBE-KUBELET-CANARY", "nft add table inet kube-proxy-not"}, ""},
		"empty table":             {[]string{"nft add table ip kube-proxy"}, ""},
		"empty chain of nftables": {[]string{"nft add table ip6 kube-proxy", "nft add chain ip6 kube-proxy services", "nft add table ip6 other", "nft add chain ip6 other c", "nft add rule ip6 other c drop"}, ""},
		"empty chain of iptables": {[]string{"iptables-nft -t nat -N KUBE-SERVICES", "iptables-nft -t nat -A POSTROUTING -j ACCEPT"}, ""},
		"empty chain, legacy":     {[]string{"iptables-legacy -t nat -N KUBE-SERVICES"}, ""},
		"nftables":                {[]string{"nft add table ip kube-proxy", "nft add chain ip kube-proxy services", "nft add rule ip kube-proxy services drop"}, `nftables table "ip kube-proxy"`},
		"nftables, IPv6":          {[]string{"nft add table ip6 kube-proxy", "nft add chain ip6 kube-proxy services", "nft add rule ip6 kube-proxy services drop"}, `nftables table "ip6 kube-proxy"`},
		"iptables":                {[]string{"iptables-nft -t nat -N KUBE-SERVICES", "iptables-nft -t nat -A KUBE-SERVICES -j ACCEPT"}, "chain KUBE-SERVICES of iptables"},
		"iptables, IPv6":          {[]string{"ip6tables-nft -t nat -N KUBE-SERVICES", "ip6tables-nft -t nat -A KUBE-SERVICES -j ACCEPT"}, "chain KUBE-SERVICES of iptables"},
		"iptables-legacy":         {[]string{"iptables-legacy -t nat -N KUBE-SERVICES", "iptables-legacy -t nat -A KUBE-SERVICES -j ACCEPT"}, "chain KUBE-SERVICES of iptables-legacy"},
		"iptables-legacy, IPv6":   {[]string{"ip6tables-legacy -t nat -N KUBE-SERVICES", "ip6tables-legacy -t nat -A KUBE-SERVICES -j ACCEPT"}, "chain KUBE-SERVICES of iptables-legacy"},
		"iptables-legacy, other":  {[]string{"iptables-legacy -t nat -N KUBE-SERVICES-NOT"}, ""},
		"ipvs":                    {[]string{"ip link add kube-ipvs0 type veth peer name other"}, "device kube-ipvs0"},
	} {
		t.Run(name, func(t *testing.T) {
			var missing string
			inNamespace(t, func() {
				for _, command := range test.commands {
					words := strings.Fields(command)
					if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
						missing = command + ": " + err.Error() + ": " + string(out)
						return
					}
				}
				if got, err := Found(); err != nil || got != test.want {
					t.Errorf("got %q, %v, want %q", got, err, test.want)
				}
			})
			if missing != "" {
				t.Skipf("this machine cannot do so: %s", missing)
			}
		})
	}
}
