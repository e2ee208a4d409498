package text

import (
	"io"
	"os"
	"strconv"

	"github.com/contiv/contiv/internal/lib/terminal"
	"golang.org/x/sys/unix"
)

const (
	// DefaultWidth is the default number of columns that tables try to fit.
	DefaultWidth = 120
	// Unlimited is wider than every line.
	Unlimited = 1 << 20
	// narrowest is the width below which tables stop shrinking.
	narrowest = 60
)

// Width returns the number of columns for tables written to out: COLUMNS, the terminal's width, or
// DefaultWidth. must forbids wider lines.
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
