package ipnet

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"net"

	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Logical names of interfaces and bridge domains. Users know them.
const (
	podGatewayName  = "podGwLoop"
	vxlanBVIName    = "vxlanBVI"
	vxlanBDName     = "vxlanBD"
	loopbackNICName = "loopbackNIC"
	// hostDeviceName is the host's device of its connection to the vswitch.
	hostDeviceName = "vpp1"
	defaultNetwork = "default"
)

// maxLogicalName is the longest logical name that all vswitches can store.
const maxLogicalName = 63

func trim(name string) string { return name[:min(len(name), maxLogicalName)] }

// maxDeviceName is the longest name that Linux gives a device.
const maxDeviceName = 15

// vethDevice is the device on the node of a pod that is connected by a VETH pair.
func vethDevice(containerID string) string { return containerID[:min(len(containerID), maxDeviceName)] }

func podLoopbackName(containerID string) string { return trim("linux-loop-" + containerID) }

func tunnelName(nodeID uint32) string { return fmt.Sprintf("vxlan-%s-%d", defaultNetwork, nodeID) }

// numberedMAC returns a hardware address with the node's ID in its last 4 bytes.
func numberedMAC(first, second byte, nodeID uint32) string {
	mac := net.HardwareAddr{first, second, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(mac[2:], nodeID)
	return mac.String()
}

func hostInterconnectMAC(nodeID uint32) string { return numberedMAC(0x34, 0x3c, nodeID) }

// OverlayMAC returns the hardware address that a node has for the others, behind its tunnel.
func OverlayMAC(nodeID uint32) string { return numberedMAC(0x12, 0x2b, nodeID) }

// podMACs returns the hardware addresses of both ends of a pod's interface;
// customIf is "" for its main one.
func podMACs(containerID, customIf string) (inPod, inVPP string) {
	h := fnv.New32a()
	h.Write([]byte(containerID + "/" + customIf))
	mac := net.HardwareAddr{0x02, 0xfe, 0, 0, 0, 0}
	binary.LittleEndian.PutUint32(mac[2:], h.Sum32())
	inPod = mac.String()
	binary.LittleEndian.PutUint32(mac[2:], ^h.Sum32())
	return inPod, mac.String()
}

// values is northbound configuration: key -> value.
type values map[string]proto.Message

func (v values) add(messages ...proto.Message) {
	for _, m := range messages {
		v[models.Key(m)] = m
	}
}

func (v values) addAll(other values) { maps.Copy(v, other) }
