package links

import vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"

var lackedTypes = map[vpp_interfaces.Interface_Type]string{
	vpp_interfaces.Interface_MEMIF:             "shared memory belongs to VPP: use a TAP",
	vpp_interfaces.Interface_IPSEC_TUNNEL:      "make the device on the host (`ip link add name <name> type xfrm`), " + asDPDK,
	vpp_interfaces.Interface_GTPU_TUNNEL:       "use a VXLAN tunnel",
	vpp_interfaces.Interface_VMXNET3_INTERFACE: "the NIC is served by the host: use its device as an interface of type DPDK",
	vpp_interfaces.Interface_RDMA:              "the NIC is served by the host: use its device as an interface of type DPDK",
}

const asDPDK = "and use it as an interface of type DPDK with the device's name"
