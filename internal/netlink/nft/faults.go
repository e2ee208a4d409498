package nft

// Fault is called before each request and may fail it in place of the kernel: with EBUSY, ENOBUFS,
// or for dumps nl.ErrDumpInterrupted. call is "commit", "dump", "get" or "generation". It is also
// called with "committed" after a transaction; an error then simulates a lost answer.
type Fault func(call string) error

// InjectFaults sets the Fault of all further requests; nil: none. For tests, while no request is in
// progress.
func (d *Conn) InjectFaults(f Fault) { d.gen.fault = f }

func (f Fault) ask(call string) error {
	if f == nil {
		return nil
	}
	return f(call)
}
