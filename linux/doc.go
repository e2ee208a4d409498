// Package linux configures the Linux side of a node: the devices, addresses,
// neighbours and routes of the linux.* models, in the agent's own network
// namespace and in those of pods.
//
//	             config/linux/interfaces/v2/interface/<name>      TAP_TO_VPP, VETH, LOOPBACK, EXISTING, …
//	               │ derives                        ▲ needs
//	               ├─> linux/interface/<name>/address/static/<addr> ◄─┐
//	               └─> linux/interface/state/<name>/UP              ◄─┤ need
//	             config/linux/l3/v2/{arp,route}/… ────────────────────┘
//	             linux/interface/host-name/<device>   obtained: what others made in the own namespace
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
// A restarted agent recognises what it made, and under which logical name:
//
//   - a device by its alias "contiv:linux/<logical name>";
//   - an address by its address protocol 126 (IFA_PROTO; Linux 5.18 and newer),
//     on older kernels by being on a device of ours;
//   - a route by its route protocol 126;
//   - a neighbour by being permanent on a device of ours.
//
// Devices of type EXISTING are not ours: they carry no mark, are never removed,
// renamed or set down, and keep the addresses that others gave them. Routes and
// neighbours on them are therefore recognised only while they are requested.
//
// # Who makes a TAP
//
// A TAP interface of the vswitch has two ends. The vswitch makes both; the far end waits under
// models.TapHostIfName until the linux interface of type TAP_TO_VPP takes it over. It waits in the
// pod's namespace if the TAP has tap.host_namespace. Otherwise it waits in the agent's own, from
// which the linux interface moves it to the pod's. When the linux interface is deleted, the far end
// waits again where it did before: device group 121 marks one that was not moved. When the pod's
// namespace is gone, the kernel has removed both ends with it.
package linux
