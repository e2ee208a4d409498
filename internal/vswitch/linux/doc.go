// Package linux configures the Linux side of a node: the devices, addresses, neighbours and routes
// of the linux.* models, in the agent's network namespace and in those of pods.
//
//	             config/linux/interfaces/v2/interface/<name>      TAP_TO_VPP, VETH, LOOPBACK, EXISTING, …
//	               │ derives                        ▲ needs
//	               ├─> linux/interface/<name>/address/static/<addr> ◄─┐
//	               └─> linux/interface/state/<name>/UP              ◄─┤ need
//	             config/linux/l3/v2/{arp,route}/… ────────────────────┘
//	             linux/interface/host-name/<device>   obtained: foreign devices of the agent's namespace
//	             config/linux/iptables/v2/rulechain/<name>        package iptables
//	             config/contiv/nat/v1/host-redirect/<label>       package redirects
//
//	scheduler ──Create/Update/Delete──> descriptors ──netlink, in the namespace──> kernel
//	scheduler <──Retrieve, RetrieveKeys── descriptors <──one dump per namespace──── kernel
//	scheduler <──ReportDrift── Watch <──one socket for all namespaces────────────── kernel
//	scheduler <──PushSBNotification(host-name)── Watch
//
// # Ownership
//
// A restarted agent recognises its objects and their logical names:
//
//   - a device by its alias "contiv:linux/<logical name>";
//   - an address by its address protocol 126 (IFA_PROTO; Linux 5.18 and newer),
//     on older kernels by being on a device of ours;
//   - a route by its route protocol 126;
//   - a neighbour by being permanent on a device of ours.
//
// Devices of type EXISTING are foreign: they carry no mark, are never removed, renamed or set down,
// and keep their foreign addresses. Routes and neighbours on them are recognised only while they
// are requested.
//
// # Creation of TAPs
//
// The vswitch creates both ends of a TAP. The far end waits under models.TapHostIfName until the
// linux interface of type TAP_TO_VPP claims it. With tap.host_namespace it waits in the pod's
// namespace. Otherwise it waits in the agent's namespace, and the linux interface moves it to the
// pod's. After the linux interface is deleted, the far end waits again in the same place: device
// group 121 marks an end that was not moved. If the pod's namespace is gone, the kernel has removed
// both ends with it.
package linux
