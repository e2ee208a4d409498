package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/contiv/contiv/kvscheduler/record"
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

// Long answers are packed in pieces without changes except for removed secrets, even if they are no
// list.
func TestLongFilesArePacked(t *testing.T) {
	var list, want strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&list, `{"n":%d,"password":"},{%d"},`, i, i)
		fmt.Fprintf(&want, `{"n":%d,"password":"<redacted>"},`, i)
	}
	noise := make([]byte, 3*piece)
	for i := range noise {
		noise[i] = byte('a' + i*i%23)
	}
	for _, c := range []struct {
		name, text, want string
		clean            func([]byte) []byte
	}{
		{"list", "[" + list.String() + "{}]", "[" + want.String() + "{}]", scrub},
		{"no list", string(noise), string(noise), scrub},
		{"history.log", list.String(), list.String(), nil},
		{"history.log.gz", list.String(), list.String(), nil},
		{"nothing", "", "", scrub},
	} {
		p := newPacker(time.Unix(1, 0))
		parts, err := p.file(c.name, strings.NewReader(c.text), c.clean)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(bytes.Join(parts, nil)))
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(unpacked)
		header, err := archive.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(archive)
		if err != nil || header.Name != p.root+"/"+c.name || string(got) != c.want {
			t.Errorf("%s: %s, %v, %d bytes, expected %d", c.name, header.Name, err, len(got), len(c.want))
		}
	}
}

// A truncated answer is not packed.
func TestBrokenAnswersAreNotPacked(t *testing.T) {
	p := newPacker(time.Unix(1, 0))
	broken := errors.New("broken")
	if _, err := p.file("f", io.MultiReader(strings.NewReader("[{}"), iotest.ErrReader(broken)), scrub); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// FuzzScrub checks that every match of the secret pattern is removed, wherever it is.
func FuzzScrub(f *testing.F) {
	for _, name := range strings.Fields("private_key PrivateKey presharedkey wg.preshared_key CRYPTO_KEY integKey secret my_secret Password api.token key tok \u017fecret to\u212aen private_\u212aey") {
		for _, member := range []string{`"%s":"abc"`, `"%s" :	"a\"b"`, `{\"%s\":\"abc\"}`, `"%s":7,"%[1]s" : "x"`, `"a%s":"b","%[1]sx":"c"`, `"%s":"token":"x"`, `x%s":"abc"`, `:"%s` + "\n\v" + `:"a`} {
			f.Add(fmt.Sprintf(member, name))
		}
	}
	anywhere := regexp.MustCompile(strings.Replace(secret.String(), "^", "", 1))
	f.Fuzz(func(t *testing.T, text string) {
		want := anywhere.ReplaceAllString(text, "${1}"+record.Redacted)
		if got := string(scrub([]byte(text))); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	})
}

// The agent's memory is asked for transactions unless the history has all of them.
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
