package nat

// ahead is what was read of the elements before anybody asked for them.
type ahead struct {
	state dnatState
	// generation of the ruleset before it was read.
	generation uint32
}

// ReadAhead reads the elements of both IP versions for the first lists of values. Reading those of
// many services takes the kernel about as long as it takes an agent that starts to read what
// services there are. What was read is used only if nothing has changed the table since.
func (v *Driver) ReadAhead() {
	v.dnat4().readAhead()
	v.dnat6().readAhead()
}

func (v dnat) readAhead() {
	v.nat.Lock()
	defer v.nat.Unlock()
	generation, ok := v.nat.Generation()
	if !ok {
		return
	}
	state, err := v.readDNAT()
	if err != nil {
		return // nobody has asked: whoever does will be told
	}
	v.nat.ahead[v.family] = ahead{state, generation}
}

// takeAhead returns what was read ahead, once, if it is still true.
func (v dnat) takeAhead() (dnatState, bool) {
	a, ok := v.nat.ahead[v.family]
	if !ok {
		return dnatState{}, false
	}
	delete(v.nat.ahead, v.family)
	_, ok = v.nat.Unchanged(v.family.batch().Name(), a.generation)
	return a.state, ok
}
