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
// The most frequent calls take a shorter way, on which contiv-cni understands nothing: it hands the agent
// the environment and standard input that the runtime gave it, and does what the agent says:
//
//	contiv-cni ──"CNI2", length, fields of an Invocation──> agent
//	           <─"CNI2", length, fields of an Outcome──────
//
// Each field is a length, a big-endian uint32, and as many bytes. Fields are only ever added at the end; a reader
// ignores those that it does not know. If the agent declines an Invocation, or does not answer, contiv-cni makes
// an ordinary Call.
//
// The agent distinguishes the protocols by the first four bytes of a connection: gRPC's are
// "PRI ". An agent that does not know one of these protocols answers with HTTP/2, which
// Read reports as ErrNotSpoken.
//
// A caller that closes its connection gives up: the agent cancels the call.
//
// The package also names the files by which DELs reach an agent that is not running.
package cniwire
