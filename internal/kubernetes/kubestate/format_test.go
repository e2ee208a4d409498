package kubestate

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckFormat(t *testing.T) {
	for value, readable := range map[string]bool{
		string(FormatValue()): true, `{"number": 1, "since": "x"}`: true, `{"number": 2}`: false, `{"number": "x"}`: false, "x": false, "": false,
	} {
		err := CheckFormat([]byte(value))
		if readable && err != nil || !readable && (!errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "upgrade this node")) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
