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

// Logical names of interfaces and bridge domains. They are part of the user interface.
const (
	podGatewayName  = "podGwLoop"
	vxlanBVIName    = "vxlanBVI"
	vxlanBDName     = "vxlanBD"
	loopbackNICName = "loopbackNIC"
	hostDeviceName  = "vpp1"
	defaultNetwork  = "default"
)

// maxLogicalName is the maximal length of logical names in all vswitches.
const maxLogicalName = 63

func trim(name string) string { return name[:min(len(name), maxLogicalName)] }

// maxDeviceName is the maximal length of device names in Linux.
const maxDeviceName = 15

func vethDevice(containerID string) string { return containerID[:min(len(containerID), maxDeviceName)] }

func podLoopbackName(containerID string) string { return trim("linux-loop-" + containerID) }

func tunnelName(nodeID uint32) string { return fmt.Sprintf("vxlan-%s-%d", defaultNetwork, nodeID) }

func numberedMAC(first, second byte, nodeID uint32) string {
	mac := net.HardwareAddr{first, second, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(mac[2:], nodeID)
	return mac.String()
}

func hostInterconnectMAC(nodeID uint32) string { return numberedMAC(0x34, 0x3c, nodeID) }

// OverlayMAC returns the MAC address of a node inside the overlay.
func OverlayMAC(nodeID uint32) string { return numberedMAC(0x12, 0x2b, nodeID) }

// podMACs returns the MAC addresses of a pod's interface. customIf is "" for the main one.
func podMACs(containerID, customIf string) (inPod, inVPP string) {
	h := fnv.New32a()
	h.Write([]byte(containerID + "/" + customIf))
	mac := net.HardwareAddr{0x02, 0xfe, 0, 0, 0, 0}
	binary.LittleEndian.PutUint32(mac[2:], h.Sum32())
	inPod = mac.String()
	binary.LittleEndian.PutUint32(mac[2:], ^h.Sum32())
	return inPod, mac.String()
}

type values map[string]proto.Message

func (v values) add(messages ...proto.Message) {
	for _, m := range messages {
		v[models.Key(m)] = m
	}
}

func (v values) addAll(other values) { maps.Copy(v, other) }
