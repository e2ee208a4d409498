package report

import (
	"strings"
	"testing"
)

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

// Secrets are found wherever they are in a text, and however they are written.
func TestWordsAreFound(t *testing.T) {
	for _, word := range inSecrets {
		for before := range 2 * shortest {
			for _, written := range []string{word, strings.ToUpper(word), strings.ToUpper(word[:1]) + word[1:]} {
				for _, text := range []string{strings.Repeat("x", before) + written, strings.Repeat("p", before) + written + "tok"} {
					if at := nextWord([]byte(text), 0); at != before {
						t.Errorf("%s: found at %d, not at %d", text, at, before)
					}
					if at := nextWord([]byte(text), before+1); at >= 0 {
						t.Errorf("%s: found at %d once more", text, at)
					}
				}
			}
		}
	}
}
