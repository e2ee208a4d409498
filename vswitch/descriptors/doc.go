// Package descriptors registers the descriptors of the vpp.* models, which make a vswitch match
// northbound values.
//
//	KVScheduler ──callbacks──> descriptors/{interfaces, l2, l3, srv6, nat, acl, punt, unimplemented}
//	                               │ made with package descriptor; none imports another
//	                               ▼
//	                           vswitch (ports) <── kernel, vpp, fake
//
// A new model goes into the package of its subject, one file per descriptor.
package descriptors
