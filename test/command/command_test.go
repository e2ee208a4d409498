package command

import (
	"strings"
	"testing"
)

func TestWarningsAreInErrorsOnly(t *testing.T) {
	if out := Run(t, "sh", "-c", "echo answer; echo warning >&2"); out != "answer\n" {
		t.Errorf("the output is %q", out)
	}
	out, err := Output("sh", "-c", "echo answer; echo reason >&2; exit 3")
	if out != "answer\n" || err == nil {
		t.Fatalf("the output is %q, %v", out, err)
	}
	for _, want := range []string{"exit status 3", "answer", "reason"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, without %q", err, want)
		}
	}
	if _, err := Output("no-such-program"); err == nil {
		t.Error("a program that does not exist does not fail")
	}
}
