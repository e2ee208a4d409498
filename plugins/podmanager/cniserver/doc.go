// Package cniserver serves cni.RemoteCNI on one socket in two protocols: gRPC, and that of
// contiv-cni (see api/contiv/cniwire). The first bytes of a connection decide.
//
//	             ┌─ "PRI " ──> gRPC ───────┐
//	socket ──────┤                         ├──> cni.RemoteCNIServer
//	             └─ "CNI1" ──> one call ───┘
//
// A panic of the service is the failure of one call. A call whose caller has gone
// is cancelled.
package cniserver
