package nft

// Fault is asked before each request, and may refuse it in place of the kernel, which never
// sees it: with EBUSY, ENOBUFS, or for dumps nl.ErrDumpInterrupted. call is "commit",
// "dump", "get" or "generation". It is asked "committed", too, when a transaction has
// happened: an error then is an answer that was lost.
type Fault func(call string) error

// InjectFaults has all further requests ask the function, nil: none. It is for tests, and
// to be called while no request is under way.
func (d *Conn) InjectFaults(f Fault) { d.gen.fault = f }

func (f Fault) ask(call string) error {
	if f == nil {
		return nil
	}
	return f(call)
}
