package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Prefixes of aliases, our marks of ownership. A logical name follows.
const (
	aliasInterface = "contiv:vpp/"
	aliasPort      = "contiv:vpp-port/"
	aliasBD        = "contiv:vpp-bd["
	aliasVXLAN     = "contiv:vpp-vxlan/"
)

// deviceGroup is the group (IFLA_GROUP) of the devices that we make: the mark
// of those whose making was interrupted before they got an alias.
const deviceGroup = 121

// Prefixes of device names.
const (
	devInterface = "c-"
	devPort      = "cp-"
	devBD        = "cb-"
	devVXLAN     = "cv"
)

// maxDeviceName is what IFNAMSIZ leaves.
const maxDeviceName = 15

var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// deviceName is the name of the device behind a logical name: readable where it
// fits, unique otherwise.
func deviceName(prefix, logical string) string {
	if plain := prefix + logical; len(plain) <= maxDeviceName && plainName.MatchString(logical) {
		return plain
	}
	sum := sha256.Sum256([]byte(logical))
	return prefix + hex.EncodeToString(sum[:6])
}

// vxlanDeviceName is at most 15 characters: VNIs have 24 bits.
func vxlanDeviceName(id vxlanID) string {
	sum := sha256.Sum256([]byte(id.src.String()))
	return fmt.Sprintf("%s%d-%x", devVXLAN, id.vni, sum[:2])
}

// vxlanID identifies a VXLAN device.
type vxlanID struct {
	src netip.Addr
	vni uint32
}

func (id vxlanID) alias() string { return fmt.Sprintf("%s%d/%s", aliasVXLAN, id.vni, id.src) }

func parseVXLANAlias(alias string) (id vxlanID, ok bool) {
	text, ok := strings.CutPrefix(alias, aliasVXLAN)
	if !ok {
		return id, false
	}
	var src string
	if _, err := fmt.Sscanf(text, "%d/%s", &id.vni, &src); err != nil {
		return id, false
	}
	var err error
	id.src, err = netip.ParseAddr(src)
	return id, err == nil
}

// bdAlias holds what a bridge domain without ports could not tell.
func bdAlias(name string, p bdParameters) string {
	return fmt.Sprintf("%s%s]/%s", aliasBD, p, name)
}

func parseBDAlias(alias string) (name string, p bdParameters, ok bool) {
	text, ok := strings.CutPrefix(alias, aliasBD)
	if !ok {
		return "", p, false
	}
	text, name, ok = strings.Cut(text, "]/")
	if !ok {
		return "", p, false
	}
	return name, parseBDParameters(text), true
}
