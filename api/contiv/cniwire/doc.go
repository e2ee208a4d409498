// Package cniwire is the protocol between contiv-cni and the agent of the same node: the
// calls of the gRPC service cni.RemoteCNI (see cni.proto) in a form that a short-lived
// program can speak without gRPC and protobuf, whose initialisation takes longer
// than the call.
//
// A connection to the agent's socket carries one call:
//
//	contiv-cni ──"CNI1", length, JSON of a Call──> agent
//	           <─"CNI1", length, JSON of an Answer──
//
// The length is that of the JSON, a big-endian uint32 of at most MaxSize. Requests
// and replies are the JSON forms of the service's messages, as protojson writes them
// with the names of the .proto file; this package declares them as plain structs. Fields that
// the other side does not know are ignored, so either side may be the newer one.
//
// The agent distinguishes the protocols by the first four bytes of a connection: gRPC's are
// "PRI ". An agent that does not know this protocol answers with HTTP/2, which
// Read reports as ErrNotSpoken.
//
// A caller that closes its connection gives up: the agent cancels the call.
//
// The package also names the files by which DELs reach an agent that is not running.
package cniwire
