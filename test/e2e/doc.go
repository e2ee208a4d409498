// Package e2e creates a real Kubernetes cluster on one machine, with Contiv as its network, and
// tests it. It needs neither Docker nor a registry.
//
//	namespace <name>-underlay   192.168.16.254
//	┌───────────────────────────────────────────────────────────────────────┐
//	│ etcd <── kube-apiserver <── kube-controller-manager, kube-scheduler    │
//	└────────┬─────────────────────────────────────────┬────────────────────┘
//	  namespace <name>-node1, 192.168.16.1      namespace <name>-node2, 192.168.16.2
//	┌────────┴──────────────────────┐         ┌────────┴──────────────────────┐
//	│ kubelet ──> containerd ──> runc          │ kubelet ──> containerd ──> runc
//	│ kube-proxy: NodePort 32379    │         │ kube-proxy: NodePort 32379    │
//	│   pods on the host's network: │         │   pods on the host's network: │
//	│     contiv-etcd, contiv-ksr,  │         │     contiv-agent              │
//	│     contiv-agent              │         │                               │
//	│   pods, wired by contiv-cni   │         │   pods, wired by contiv-cni   │
//	└───────────────────────────────┘         └───────────────────────────────┘
//
// Networks, processes and records are those of a lab (package lab). hack/kubernetes builds
// Kubernetes' programs from its Go module, hack/containerd those of containerd and runc, and this
// package writes the image archives. Contiv is installed from the manifests in deploy.
//
// All nodes share the machine's file system and its cgroups. So each node has a directory,
// <cluster>/nodes/<node>, in place of /var/lib, /etc, /run and /opt, and a cgroup,
// /contiv-e2e-<cluster>/<node>. Kubelet and containerd enter only the network namespace of their
// node, because mounts must be visible to all.
//
// Down needs only the cluster's name, and so also removes the remains of a crash.
package e2e
