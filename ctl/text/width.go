package text

import (
	"io"
	"os"
	"strconv"

	"github.com/contiv/contiv/terminal"
	"golang.org/x/sys/unix"
)

const (
	// DefaultWidth is the number of columns that tables try to fit in by default.
	DefaultWidth = 120
	// Unlimited is a width that nothing exceeds.
	Unlimited = 1 << 20
	// narrowest is the width below which tables do not shrink any further.
	narrowest = 60
)

// Width returns the number of columns that tables written to out should fit in: the value of COLUMNS, else the
// width of the terminal, else DefaultWidth. must: nothing may be wider.
func Width(out io.Writer) (columns int, must bool) {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, narrowest), true
	}
	if file, ok := out.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return max(int(size.Col), narrowest), true
		}
	}
	return DefaultWidth, terminal.Is(out)
}
