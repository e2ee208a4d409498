package iptables

import (
	"fmt"
	"strings"
)

// A rule may have options for matches and targets only. iptables accepts others: -M executes a
// program, -t changes the table, and it also accepts "--modpr" for --modprobe and "-fM" for -f -M.
// So options are allowed by full name only.

// shortOptions maps one-letter options to whether a value follows.
var shortOptions = map[string]bool{
	"-s": true, "-d": true, "-p": true, "-i": true, "-o": true, "-j": true, "-g": true, "-m": true, "-f": false,
}

// ruleOptions lists the long options of rules.
var ruleOptions = setOf("--source", "--src", "--destination", "--dst", "--protocol", "--in-interface", "--out-interface",
	"--jump", "--goto", "--match", "--fragment", "--ipv4", "--ipv6")

// extensionOptions lists the options of iptables-extensions(8).
var extensionOptions = setOf(
	"--accept-local", "--add-set", "--ahlen", "--ahres", "--ahspi", "--alarm", "--algo", "--and-mark", "--and-tos", "--bytecode", "--bytes-gt",
	"--bytes-lt", "--cgroup", "--checksum-fill", "--chunk-types", "--clamp-mss-to-pmtu", "--cluster-hash-seed", "--cluster-local-nodemask",
	"--cluster-total-nodes", "--clustermac", "--comment", "--compres", "--connbytes-dir", "--connbytes-mode", "--connlimit-above", "--connlimit-daddr",
	"--connlimit-mask", "--connlimit-saddr", "--connlimit-upto", "--contiguous", "--cpu", "--ctdir", "--ctevents", "--ctexpire", "--ctmask",
	"--ctorigdst", "--ctorigdstport", "--ctorigsrc", "--ctorigsrcport", "--ctproto", "--ctrepldst", "--ctrepldstport", "--ctreplsrc", "--ctreplsrcport",
	"--ctstate", "--ctstatus", "--datestart", "--datestop", "--dccp-option", "--dccp-types", "--del-set", "--destination-port", "--destination-ports",
	"--dir", "--dport", "--dports", "--dscp", "--dscp-class", "--dst-group", "--dst-len", "--dst-opts", "--dst-pfx", "--dst-range", "--dst-type",
	"--ecn", "--ecn-ip-ect", "--ecn-tcp-cwr", "--ecn-tcp-ece", "--ecn-tcp-remove", "--espspi", "--every", "--exist", "--expevents", "--fragfirst",
	"--fragid", "--fraglast", "--fraglen", "--fragmore", "--fragres", "--from", "--gateway", "--genre", "--gid-owner", "--hash-init", "--hashlimit",
	"--hashlimit-above", "--hashlimit-burst", "--hashlimit-dstmask", "--hashlimit-htable-expire", "--hashlimit-htable-gcinterval",
	"--hashlimit-htable-max", "--hashlimit-htable-size", "--hashlimit-mode", "--hashlimit-name", "--hashlimit-rate-interval", "--hashlimit-rate-match",
	"--hashlimit-srcmask", "--hashlimit-upto", "--hashmode", "--hbh-len", "--hbh-opts", "--header", "--helper", "--hex-string", "--hitcount",
	"--hl-dec", "--hl-eq", "--hl-gt", "--hl-inc", "--hl-lt", "--hl-set", "--hmark-dport", "--hmark-dport-mask", "--hmark-dst-prefix", "--hmark-mod",
	"--hmark-offset", "--hmark-proto-mask", "--hmark-rnd", "--hmark-spi", "--hmark-spi-mask", "--hmark-sport", "--hmark-sport-mask",
	"--hmark-src-prefix", "--hmark-tuple", "--icase", "--icmp-type", "--icmpv6-type", "--invert", "--ipcompspi", "--ipvs", "--kerneltz", "--label",
	"--led-always-blink", "--led-delay", "--led-trigger-id", "--left-shift-mark", "--length", "--limit", "--limit-burst", "--limit-iface-in",
	"--limit-iface-out", "--local-node", "--log", "--log-ip-options", "--log-level", "--log-macdecode", "--log-prefix", "--log-tcp-options",
	"--log-tcp-sequence", "--log-uid", "--loose", "--mac-source", "--map-mark", "--map-prio", "--map-queue", "--map-set", "--mark", "--mask",
	"--match-set", "--mh-type", "--mode", "--monthdays", "--mss", "--name", "--new", "--next", "--nfacct-name", "--nflog-group", "--nflog-prefix",
	"--nflog-range", "--nflog-size", "--nflog-threshold", "--nfmask", "--nodst", "--notrack", "--nowildcard", "--oif", "--on-ip", "--on-port",
	"--or-mark", "--or-tos", "--packet", "--packets-gt", "--packets-lt", "--path", "--persistent", "--physdev-in", "--physdev-is-bridged",
	"--physdev-is-in", "--physdev-is-out", "--physdev-out", "--pkt-type", "--pol", "--ports", "--probability", "--proto", "--queue-balance",
	"--queue-bypass", "--queue-cpu-fanout", "--queue-num", "--quota", "--random", "--random-fully", "--rateest", "--rateest-bps1", "--rateest-bps2",
	"--rateest-delta", "--rateest-ewmalog", "--rateest-interval", "--rateest-name", "--rateest-pps1", "--rateest-pps2", "--rateest1", "--rateest2",
	"--rcheck", "--rdest", "--realm", "--reap", "--reject-with", "--remove", "--reqid", "--restore", "--restore-mark", "--restore-skmark",
	"--return-nomatch", "--right-shift-mark", "--rsource", "--rt", "--rt-0-addrs", "--rt-0-not-strict", "--rt-0-res", "--rt-len", "--rt-segsleft",
	"--rt-type", "--rttl", "--sack-perm", "--save", "--save-mark", "--seconds", "--selctx", "--set", "--set-class", "--set-dscp", "--set-dscp-class",
	"--set-mark", "--set-mss", "--set-tos", "--set-xmark", "--socket-exists", "--soft", "--source-port", "--source-ports", "--spi", "--sport",
	"--sports", "--src-group", "--src-pfx", "--src-range", "--src-type", "--srh-hdr-len-eq", "--srh-hdr-len-gt", "--srh-hdr-len-lt",
	"--srh-last-entry-eq", "--srh-last-entry-gt", "--srh-last-entry-lt", "--srh-lsid", "--srh-next-hdr", "--srh-nsid", "--srh-psid",
	"--srh-segs-left-eq", "--srh-segs-left-gt", "--srh-segs-left-lt", "--srh-tag", "--state", "--strict", "--string", "--strip-options",
	"--suppl-groups", "--syn", "--tcp-flags", "--tcp-option", "--timeout", "--timestamp", "--timestart", "--timestop", "--to-destination", "--to-ports",
	"--to-source", "--tos", "--total-nodes", "--tproxy-mark", "--transparent", "--ttl", "--ttl-dec", "--ttl-eq", "--ttl-gt", "--ttl-inc", "--ttl-lt",
	"--ttl-set", "--tunnel-dst", "--tunnel-src", "--type", "--u32", "--uid-owner", "--ulog-cprange", "--ulog-nlgroup", "--ulog-prefix",
	"--ulog-qthreshold", "--update", "--vaddr", "--validmark", "--vdir", "--vmethod", "--vport", "--vportctl", "--vproto", "--weekdays", "--wscale",
	"--xor-mark", "--xor-tos", "--zone", "--zone-orig", "--zone-reply",
)

// textOptions take any text, such as "-A", as their value.
var textOptions = setOf("--comment", "--log-prefix", "--nflog-prefix", "--ulog-prefix", "--string", "--hex-string")

// checkOptions returns an error for the first forbidden word of a rule.
func checkOptions(words []string) error {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word, "-") || word == "-" {
			continue
		}
		name, _, attached := strings.Cut(word, "=")
		_, short := shortOptions[word]
		switch {
		case textOptions[name]:
			if !attached {
				i++
			}
		case name == "-m" || name == "--match" || name == "-j" || name == "--jump" || name == "-g" || name == "--goto":
			value := strings.TrimPrefix(word[len(name):], "=")
			if !attached && i+1 < len(words) {
				value = words[i+1]
			}
			if strings.ContainsAny(value, "/.\\") {
				return fmt.Errorf("name %q of a match or target, which has a slash or a dot", value)
			}
		case short, ruleOptions[name], extensionOptions[name]:
		case isNumber(word):
		default:
			return fmt.Errorf("option %s", word)
		}
	}
	return nil
}

func isNumber(word string) bool {
	return len(word) > 1 && strings.Trim(word[1:], "0123456789") == ""
}
