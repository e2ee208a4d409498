package house

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// Only tests execute the program nft, directly or through a library: see docs/design/adr/012.
func TestNothingExecutesNft(t *testing.T) {
	for _, room := range []string{"internal/vswitch", "internal/vswitch/linux", "internal/netlink", "internal/plugins", "cmd", "internal/cni", "internal/ctl"} {
		forEachFile(t, room, func(path string, file *ast.File) {
			for _, imported := range file.Imports {
				if imported.Path.Value == `"sigs.k8s.io/knftables"` {
					t.Errorf("%s imports knftables, which executes nft", path)
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f, ok := call.Fun.(*ast.SelectorExpr); !ok || !strings.HasPrefix(f.Sel.Name, "Command") {
					return true
				}
				for _, arg := range call.Args {
					if text, ok := arg.(*ast.BasicLit); ok && text.Kind == token.STRING {
						if program, _ := strconv.Unquote(text.Value); program == "nft" {
							t.Errorf("%s executes nft", path)
						}
					}
				}
				return true
			})
		})
	}
}
