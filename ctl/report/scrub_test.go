package report

import "testing"

func TestSecretsAreTakenOut(t *testing.T) {
	for text, want := range map[string]string{
		`{"Name":"x"}`:                          `{"Name":"x"}`,
		`{"private_key":"abc","name":"secret"}`: `{"private_key":"<redacted>","name":"secret"}`,
		`{"a":"{\"PrivateKey\":\"abc\",\"b\":1}","Password" : "x y"}`:            `{"a":"{\"PrivateKey\":\"<redacted>\",\"b\":1}","Password" : "<redacted>"}`,
		`{"token":1,"etcd.token":"t","wg_preshared_key":"p","integrity":"none"}`: `{"token":1,"etcd.token":"<redacted>","wg_preshared_key":"<redacted>","integrity":"none"}`,
	} {
		if got := string(scrub([]byte(text))); got != want {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
}
