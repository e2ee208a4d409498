package client

import "testing"

// Whatever etcd has as a status is about the key that it is the status of, and can be told.
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
			t.Errorf("nothing to tell of %v", s)
		}
		Settled(s)
	})
}
