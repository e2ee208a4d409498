package foreign_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
)

// Rules of other programs, and their effect on a TCP packet of a pod.
func TestForeignRulesets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	for name, c := range map[string]struct{ program, ruleset, want string }{
		"verdicts of a map": {"nft", `table inet filter {
	chain new { iifname "c-pod" accept; }
	chain forward {
		type filter hook forward priority 0; policy drop;
		ct state vmap { established : accept, related : accept, new : jump new }
	}
}`, ""},
		"queued": {"nft", `table inet filter {
	chain forward {
		type filter hook forward priority 0; policy drop;
		queue num 0 bypass
	}
}`, ""},
		"combined": {"nft", `table inet filter {
	chain forward {
		type filter hook forward priority 0;
		ip saddr 10.1.1.2 ip daddr 10.1.2.2 drop
	}
}`, "drops"},
		"combined ports": {"nft", `table inet filter {
	chain forward {
		type filter hook forward priority 0;
		tcp sport 40000 tcp dport 80 drop
	}
}`, "drops"},
		"loopback by index": {"nft", `table inet filter {
	chain forward {
		type filter hook forward priority 0; policy drop;
		iif lo accept
	}
}`, "policy"},
		"marked": {"nft", `table inet filter {
	chain forward {
		type filter hook forward priority 0; policy drop;
		meta mark set 1
		meta mark 1 accept
	}
}`, ""},
		"marked before": {"nft", `table inet filter {
	chain prerouting { type filter hook prerouting priority -150; iifname "c-*" meta mark set 1; }
	chain forward {
		type filter hook forward priority 0; policy drop;
		meta mark 1 accept
	}
}`, ""},
		"others are marked": {"nft", `table inet filter {
	chain prerouting { type filter hook prerouting priority -150; iifname "tailscale0" meta mark set 1; }
	chain forward {
		type filter hook forward priority 0; policy drop;
		meta mark 1 accept
	}
}`, "policy"},
		"socket": {"nft", `table inet filter {
	chain p {
		type filter hook prerouting priority -150;
		meta l4proto tcp socket transparent 1 drop
	}
}`, ""},
		"frames of a VLAN": {"nft", `table netdev x {
	chain i {
		type filter hook ingress device c-pod priority 0
		vlan id 5 drop
	}
}`, ""},
		"by the device's index": {"nft", `table inet filter {
	chain forward {
		type filter hook forward priority 0;
		iif c-pod drop
	}
}`, "drops"},
		"NFQUEUE": {"iptables-nft-restore", `*filter
:FORWARD DROP [0:0]
-A FORWARD -j NFQUEUE --queue-num 0 --queue-bypass
COMMIT`, ""},
		"multiport": {"iptables-nft-restore", `*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -p tcp -m multiport --dports 22,70:90 -j DROP
COMMIT`, "drops"},
		"multiport of others": {"iptables-nft-restore", `*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -p tcp -m multiport --dports 22,443 -j DROP
COMMIT`, ""},
		"MARK": {"iptables-nft-restore", `*filter
:FORWARD DROP [0:0]
-A FORWARD -j MARK --set-xmark 0x10000/0x10000
-A FORWARD -m mark --mark 0x10000/0x10000 -j ACCEPT
COMMIT`, ""},
		"Calico's drop": {"iptables-nft-restore", `*mangle
:PREROUTING ACCEPT [0:0]
:cali-PREROUTING - [0:0]
-A PREROUTING -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING
-A cali-PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*filter
:FORWARD ACCEPT [0:0]
:cali-FORWARD - [0:0]
:cali-tw-x - [0:0]
:cali-pri - [0:0]
-A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD
-A FORWARD -m comment --comment "cali:S93hcgKJrXEqnTfs" -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -o c-vx+ -j cali-tw-x
-A cali-tw-x -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-tw-x -m conntrack --ctstate INVALID -j DROP
-A cali-tw-x -j MARK --set-xmark 0x0/0x10000
-A cali-tw-x -j cali-pri
-A cali-tw-x -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-tw-x -m comment --comment "Drop if no profiles matched" -j DROP
-A cali-pri -s 10.1.0.0/16 -j MARK --set-xmark 0x10000/0x10000
-A cali-pri -m mark --mark 0x10000/0x10000 -j RETURN
COMMIT`, ""},
		"Tailscale": {"iptables-nft-restore", `*filter
:FORWARD ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:ts-forward - [0:0]
:ts-input - [0:0]
-A INPUT -j ts-input
-A FORWARD -j ts-forward
-A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000
-A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT
-A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP
-A ts-forward -o tailscale0 -j ACCEPT
-A ts-input -s 100.101.102.103/32 -i lo -j ACCEPT
-A ts-input -s 100.115.92.0/23 ! -i tailscale0 -j RETURN
-A ts-input -s 100.64.0.0/10 ! -i tailscale0 -j DROP
COMMIT`, ""},
		"Docker": {"iptables-nft-restore", `*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.17.0.2:80
COMMIT
*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP
COMMIT
*filter
:FORWARD ACCEPT [0:0]
:DOCKER-USER - [0:0]
:DOCKER-FORWARD - [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-FORWARD
-A DOCKER-USER -j RETURN
-A DOCKER-FORWARD -j DOCKER-ISOLATION-STAGE-1
-A DOCKER-FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-FORWARD -o docker0 -j DOCKER
-A DOCKER-FORWARD -i docker0 -j ACCEPT
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A DOCKER ! -i docker0 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
COMMIT`, ""},
		"kube-proxy and the kubelet": {"iptables-nft-restore", `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "a/b has no endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "a/b has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT`, ""},
		"firewalld that trusts pods": {"nft", `table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state invalid drop
		ip6 daddr { ::/96, ::ffff:0.0.0.0/96, 2002:a00::/24 } reject with icmpv6 addr-unreachable
		jump filter_FORWARD_ZONES
		reject with icmpx admin-prohibited
	}
	chain filter_FORWARD_ZONES {
		ip saddr 10.1.0.0/16 goto filter_FWD_trusted
		iifname "eth0" goto filter_FWD_public
		goto filter_FWD_public
	}
	chain filter_FWD_trusted { accept; }
	chain filter_FWD_public { reject with icmpx admin-prohibited; }
	chain filter_PREROUTING {
		type filter hook prerouting priority filter + 10; policy accept;
		icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
		meta nfproto ipv6 fib saddr . mark . iif oif missing drop
	}
}`, ""},
		"kube-proxy by nftables": {"nft", `table ip kube-proxy {
	set cluster-ips { type ipv4_addr; elements = { 10.96.0.1 }; }
	map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
	chain filter-forward { type filter hook forward priority -110; policy accept; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
	chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
	chain cluster-ips-check { ip daddr @cluster-ips reject; ip daddr 10.96.0.0/12 drop; }
	chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }
	chain services { ip daddr 10.1.2.2 dnat to 10.1.1.9; }
}`, ""},
		"ufw that forwards": {"iptables-nft-restore", `*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
:ufw-before-forward - [0:0]
:ufw-user-forward - [0:0]
:ufw-reject-forward - [0:0]
:ufw-skip-to-policy-forward - [0:0]
:ufw-logging-deny - [0:0]
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-user-forward
-A FORWARD -j ufw-reject-forward
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p icmp -m icmp --icmp-type 3 -j ACCEPT
-A ufw-logging-deny -m conntrack --ctstate INVALID -m limit --limit 3/min --limit-burst 10 -j RETURN
-A ufw-logging-deny -m limit --limit 3/min --limit-burst 10 -j LOG --log-prefix "[UFW BLOCK] "
-A ufw-skip-to-policy-forward -j ACCEPT
COMMIT`, ""},
		"ufw that forwards nothing": {"iptables-nft-restore", `*filter
:FORWARD DROP [0:0]
:ufw-not-local - [0:0]
:ufw-logging-deny - [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -j ufw-not-local
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN
-A ufw-not-local -m addrtype --dst-type BROADCAST -j RETURN
-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j ufw-logging-deny
-A ufw-not-local -j DROP
-A ufw-logging-deny -m conntrack --ctstate INVALID -m limit --limit 3/min --limit-burst 10 -j RETURN
COMMIT`, "a rule of chain ufw-not-local"},
		"new connections": {"iptables-nft-restore", `*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP
COMMIT`, "drops"},
		"new connections that do not begin": {"iptables-nft-restore", `*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m conntrack --ctstate NEW -j DROP
COMMIT`, ""},
		"firewalld, as nftables has it": {"nft", `table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ip6 daddr { ::/96, ::ffff:0.0.0.0/96, 2002:a00::/24 } reject with icmpv6 addr-unreachable
		jump filter_FORWARD_ZONES
		reject with icmpx admin-prohibited
	}
	chain filter_FORWARD_ZONES { iifname vmap { "eth0" : goto filter_FWD_public, "c-pod" : goto filter_FWD_public }; }
	chain filter_FWD_public { reject with icmpx admin-prohibited; }
}`, ""},
		"libvirt": {"nft", `table ip libvirt_network {
	chain forward { type filter hook forward priority filter; policy accept; jump guest_input; jump guest_output; }
	chain guest_input { oifname "virbr0" ip daddr 192.168.122.0/24 ct state established,related accept; oifname "virbr0" reject; }
	chain guest_output { ip saddr 192.168.122.0/24 iifname "virbr0" accept; iifname "virbr0" reject; }
}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespaceFor(t)
			command(t, "ip", "-n", ns, "link", "add", "c-pod", "type", "veth", "peer", "name", "c-vxlanBVI")
			words := []string{"netns", "exec", ns, c.program}
			if c.program == "nft" {
				words = append(words, "-f", "-")
			}
			load := exec.Command("ip", words...)
			load.Stdin = strings.NewReader(c.ruleset + "\n")
			if out, err := load.CombinedOutput(); err != nil {
				t.Skipf("this kernel, or %s, does not take the rules (%v: %s): run the test where they are taken, such as on a stock kernel of Debian with nftables and iptables", c.program, err, out)
			}
			requireHarms(t, ns, c.ruleset, foreign.Packet{}, c.want)
			if c.want == "" {
				for _, kind := range []foreign.Packet{{Answer: true}, {Later: true}, {Answer: true, Later: true}} {
					requireHarms(t, ns, c.ruleset, kind, "")
				}
			}
		})
	}
}
