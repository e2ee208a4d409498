package client

import "testing"

// Any bytes in etcd decode to a status of the right key with an explanation.
func FuzzStatus(f *testing.F) {
	const key = "config/vpp/v2/interfaces/a"
	f.Add([]byte(`{"value":{"key":"config/vpp/v2/interfaces/a","state":"PENDING"},"waits_for":["x"],"revision":"7"}`))
	f.Add([]byte(`{}`))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := decodeStatus(key, data)
		if keyOf(s) != key {
			t.Errorf("status of %q", keyOf(s))
		}
		if Explain(s) == "" {
			t.Errorf("no explanation of %v", s)
		}
		Settled(s)
	})
}
