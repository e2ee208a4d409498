package faults

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/contiv/contiv/test/labtest"
	"go.uber.org/goleak"
)

var (
	writeReport = flag.Bool("write", false, "write the report to docs/design/faults.md")
	jumpClock   = flag.Bool("clock", false, "test jumps of the clock: builds an agent with a movable clock, which takes a minute when it is not cached")
)

var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	// Labs spend most of the time waiting.
	flag.Set("test.parallel", "4")
	if os.Geteuid() != 0 {
		m.Run() // each test skips itself and reports the reason
		return
	}
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		if code := m.Run(); code != 0 {
			return code, nil
		}
		return 0, errors.Join(goleak.Find(), report.finish())
	})
}
