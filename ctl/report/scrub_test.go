package report

import (
	"net/http"
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

// The memory of an agent is asked for transactions unless its history has all of them.
func TestWholeHistory(t *testing.T) {
	for runs, want := range map[string]bool{
		`[{"Run": 1, "Lost": 3}, {"Run": 2}]`: true,
		`[{"Run": 1}, {"Run": 2, "Lost": 3}]`: false,
		`[]`:                                  false,
		`not found`:                           false,
	} {
		if got := whole(answer{status: http.StatusOK, body: []byte(runs)}); got != want {
			t.Errorf("%s: %v", runs, got)
		}
	}
	if whole(answer{status: http.StatusNotFound, body: []byte(`[{"Run": 1}]`)}) {
		t.Error("of an agent without history")
	}
}
