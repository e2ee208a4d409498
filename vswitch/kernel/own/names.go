package own

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/vswitch"
)

// Prefixes of aliases, our marks of ownership. A logical name follows.
const (
	AliasInterface = "contiv:vpp/"
	AliasPort      = "contiv:vpp-port/"
	AliasBridge    = "contiv:vpp-bd["
	aliasVXLAN     = "contiv:vpp-vxlan/"
	aliasVRF       = "contiv:vpp-vrf["
)

// DeviceGroup is the group (IFLA_GROUP) of the devices that we make: the mark of devices whose
// creation was interrupted before they got an alias.
const DeviceGroup = 121

// Prefixes of device names.
const (
	DevInterface = "c-"
	DevPort      = "cp-"
	DevBridge    = "cb-"
	devVXLAN     = "cv"
	devVRF       = "cvrf" // no name of a VXLAN device goes on like this
)

// MaxDeviceName is what IFNAMSIZ leaves.
const MaxDeviceName = 15

var PlainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// DeviceName is the name of the device behind a logical name: readable where it
// fits, unique otherwise.
func DeviceName(prefix, logical string) string {
	if plain := prefix + logical; len(plain) <= MaxDeviceName && PlainName.MatchString(logical) {
		return plain
	}
	sum := sha256.Sum256([]byte(logical))
	return prefix + hex.EncodeToString(sum[:6])
}

// bdAlias holds what a bridge domain without ports could not tell.
func BridgeAlias(name string, p BridgeParameters) string {
	return fmt.Sprintf("%s%s]/%s", AliasBridge, p, name)
}

func ParseBridgeAlias(alias string) (name string, p BridgeParameters, ok bool) {
	text, ok := strings.CutPrefix(alias, AliasBridge)
	if !ok {
		return "", p, false
	}
	text, name, ok = strings.Cut(text, "]/")
	if !ok {
		return "", p, false
	}
	return name, parseBDParameters(text), true
}

// VRFDeviceName is the name of the VRF device of a VRF, such as cvrf5.
func VRFDeviceName(vrf uint32) string { return devVRF + strconv.FormatUint(uint64(vrf), 10) }

// VRFAlias says for which IP versions a VRF device has a table: contiv:vpp-vrf[v4,v6]/5.
func VRFAlias(vrf uint32, versions vswitch.IPVersions) string {
	var words []string
	for _, v := range versions.Each() {
		words = append(words, v.String())
	}
	return fmt.Sprintf("%s%s]/%d", aliasVRF, strings.Join(words, ","), vrf)
}

func ParseVRFAlias(alias string) (vrf uint32, versions vswitch.IPVersions, ok bool) {
	text, ok := strings.CutPrefix(alias, aliasVRF)
	if !ok {
		return 0, versions, false
	}
	text, number, ok := strings.Cut(text, "]/")
	id, err := strconv.ParseUint(number, 10, 32)
	for word := range strings.SplitSeq(text, ",") {
		versions.V4 = versions.V4 || word == "v4"
		versions.V6 = versions.V6 || word == "v6"
	}
	return uint32(id), versions, ok && err == nil && id > 0 && id <= MaxVRF
}

// UnknownPrefix starts the names of objects that are ours but whose logical name is unknown. The
// name of the device, or the identity of the tunnel, follows it.
const UnknownPrefix = "UNKNOWN-"

// UnknownDevice returns the device of a name that starts with UnknownPrefix.
func UnknownDevice(name string) (device string, ok bool) {
	return strings.CutPrefix(name, UnknownPrefix)
}

// bdParameters are what Linux can do of the parameters of a bridge domain.
type BridgeParameters struct {
	Flood, UnknownUnicastFlood, Learn bool
	MacAge                            uint32 // minutes; 0: forever
}

// String is the form in aliases, such as "flood,learn,age=5".
func (p BridgeParameters) String() string {
	var words []string
	for word, on := range map[string]bool{"flood": p.Flood, "uu-flood": p.UnknownUnicastFlood, "learn": p.Learn} {
		if on {
			words = append(words, word)
		}
	}
	if p.MacAge != 0 {
		words = append(words, fmt.Sprintf("age=%d", p.MacAge))
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

func parseBDParameters(text string) (p BridgeParameters) {
	for word := range strings.SplitSeq(text, ",") {
		switch word {
		case "flood":
			p.Flood = true
		case "uu-flood":
			p.UnknownUnicastFlood = true
		case "learn":
			p.Learn = true
		}
		if age, ok := strings.CutPrefix(word, "age="); ok {
			minutes, _ := strconv.ParseUint(age, 10, 32)
			p.MacAge = uint32(minutes)
		}
	}
	return p
}
