// Package cniserver serves cni.RemoteCNI on one socket in two protocols: gRPC, and that of
// contiv-cni (see api/contiv/cniwire). The first bytes of a connection select the protocol.
//
//	socket ──┬─ "PRI " ──> gRPC ──────┬──> cni.RemoteCNIServer
//	         └─ "CNI1" ──> one call ──┘
//
// A panic of the service only fails its call. A call is cancelled when its caller disconnects.
package cniserver
