package stn

import (
	"os"
	"strings"
)

// resolvConf reads the host's resolv.conf; "" if it names no server.
func (k *Keeper) resolvConf() string {
	text, err := os.ReadFile(k.ResolvConf)
	if err != nil || len(Servers(string(text))) == 0 {
		return ""
	}
	return string(text)
}

// Servers returns the DNS servers in the text of a resolv.conf.
func Servers(text string) (list []string) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			list = append(list, fields[1])
		}
	}
	return list
}

// restoreDNS restores the host's resolv.conf if it lost its servers with the card.
func (k *Keeper) restoreDNS(c *card) {
	if c.ResolvConf == "" || k.resolvConf() != "" {
		return
	}
	k.before("resolv.conf")
	if err := os.WriteFile(k.ResolvConf, []byte(c.ResolvConf), 0o644); err != nil {
		k.Log.Warn("Restoring DNS servers of the host failed", "file", k.ResolvConf, "error", err)
	}
}
