package own

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/vswitch"
)

// Prefixes of aliases, our marks of ownership. A logical name follows.
const (
	AliasInterface = "contiv:vpp/"
	AliasPort      = "contiv:vpp-port/"
	AliasBridge    = "contiv:vpp-bd["
	aliasVXLAN     = "contiv:vpp-vxlan/"
	aliasVRF       = "contiv:vpp-vrf["
)

// DeviceGroup is the group (IFLA_GROUP) of our devices. It marks devices without an alias after an
// interrupted creation.
const DeviceGroup = 121

const (
	DevInterface = "c-"
	DevPort      = "cp-"
	DevBridge    = "cb-"
	devVXLAN     = "cv"
	devVRF       = "cvrf" // no VXLAN device name continues like this
)

// MaxDeviceName is IFNAMSIZ without the terminating zero.
const MaxDeviceName = 15

var PlainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// DeviceName returns the device name for a logical name: readable where it fits, unique otherwise.
func DeviceName(prefix, logical string) string {
	if plain := prefix + logical; len(plain) <= MaxDeviceName && PlainName.MatchString(logical) {
		return plain
	}
	sum := sha256.Sum256([]byte(logical))
	return prefix + hex.EncodeToString(sum[:6])
}

// BridgeAlias stores the parameters, which a bridge without ports does not reveal.
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

// VRFDeviceName returns the name of a VRF's device, such as cvrf5.
func VRFDeviceName(vrf uint32) string { return devVRF + strconv.FormatUint(uint64(vrf), 10) }

// VRFAlias returns the alias with the IP versions of a VRF device's table: contiv:vpp-vrf[v4,v6]/5.
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

// UnknownPrefix starts the names of our objects without a known logical name. The device name or
// tunnel identity follows.
const UnknownPrefix = "UNKNOWN-"

// UnknownDevice returns the device of a name with UnknownPrefix.
func UnknownDevice(name string) (device string, ok bool) {
	return strings.CutPrefix(name, UnknownPrefix)
}

// BridgeParameters are the parameters of a bridge domain that Linux supports.
type BridgeParameters struct {
	Flood, UnknownUnicastFlood, Learn bool
	MacAge                            uint32
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
