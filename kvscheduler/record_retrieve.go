package kvscheduler

// maxRecordedKeys is the maximum number of keys in the record of a Retrieve.
const maxRecordedKeys = 16

// recordRetrieve records a call that read the given nodes, or all values if keyed is false.
func (x *exec) recordRetrieve(c *call, nodes []*node, keyed bool, err error) {
	if !x.recording || x.caller == nil {
		return
	}
	r := RecordedRetrieve{Descriptor: c.h.name, After: len(x.ops), Duration: x.caller.last, Err: err}
	x.caller.last = 0
	if err == nil {
		r.Found = len(c.outItems)
	}
	if keyed {
		r.MoreKeys = max(0, len(nodes)-maxRecordedKeys)
		for _, n := range nodes[:len(nodes)-r.MoreKeys] {
			r.Keys = append(r.Keys, n.key)
		}
	}
	x.reads = append(x.reads, r)
}

// executedReads returns the recorded reads. Their After does not count replaced operations.
func (x *exec) executedReads() []RecordedRetrieve {
	if x.replacedOps == 0 {
		return x.reads
	}
	kept, counted := 0, 0
	for i := range x.reads {
		for ; counted < x.reads[i].After; counted++ {
			if x.ops[counted].Key != "" {
				kept++
			}
		}
		x.reads[i].After = kept
	}
	return x.reads
}
