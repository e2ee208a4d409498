package nat

// natScope is a group of clients; "" for all.
type natScope string

const (
	scopeInside  natScope = "in"
	scopeOutside natScope = "out"
	scopeOwn     natScope = "own"
)

var natScopes = []natScope{"", scopeInside, scopeOutside, scopeOwn}

func (s natScope) infix() string {
	if s == "" {
		return ""
	}
	return string(s) + "-"
}

// chain returns the chain that selects one of several backends.
func (s natScope) chain() string {
	return map[natScope]string{"": chainBalance, scopeInside: "nat-pick-inside", scopeOutside: "nat-pick-outside", scopeOwn: "nat-pick-own"}[s]
}

func (s natScope) known() string { return s.suffixed("nat-known") }

func (s natScope) balanced() string { return s.suffixed(setBalanced) }
func (s natScope) port() string     { return s.suffixed(prefixPort) }
func (s natScope) apart() string    { return s.suffixed(prefixApart) }
func (s natScope) usable() string   { return s.suffixed(prefixUsable) }

func (s natScope) suffixed(name string) string {
	if s == "" {
		return name
	}
	return name + "-" + string(s)
}
