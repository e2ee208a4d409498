package cni

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/contiv/api/contiv/cniwire"
)

// recordMissedDel notes the DEL for the agent, which is not running. Without the note, the agent
// would unwire the container only after its network namespace disappears.
func (c *call) recordMissedDel() {
	if !filepath.IsAbs(c.config.GRPCServer) {
		return // the agent is on another file system
	}
	dir := filepath.Join(filepath.Dir(c.config.GRPCServer), cniwire.MissedDelsDir)
	err := os.Mkdir(dir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		name := filepath.Base(cniwire.MissedDel(c.request.ContainerID, c.request.InterfaceName))
		err = os.WriteFile(filepath.Join(dir, name), nil, 0o600)
	}
	if err != nil {
		c.log.Warn("Recording a missed DEL failed; the agent disconnects the container when its network namespace is gone", "err", err)
	}
}
