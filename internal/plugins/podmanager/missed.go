package podmanager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/controller"
)

// makeUpForMissedDels removes the pods of missed DELs, even if their network namespaces exist. The
// resync in progress then removes their configuration.
func (m *PodManager) makeUpForMissedDels(ctx context.Context) {
	if m.missedDels == "" {
		return
	}
	log := controller.Logger(ctx, m.log)
	files, err := os.ReadDir(m.missedDels)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("Reading missed DELs failed", "error", err)
	}
	for _, file := range files {
		containerID, ifName, ok := cniwire.ParseMissedDel(file.Name())
		if !ok {
			continue
		}
		if p, known := m.byContainer(containerID, ifName); known {
			log.Info("Removing a pod deleted while the agent was stopped", "pod", p.ID, "container", containerID)
			m.forget(ctx, p.ID)
		}
		m.dropMissedDel(ctx, containerID, ifName)
	}
}

// dropMissedDel removes the note of a missed DEL, which is obsolete after an ADD of the same
// container.
func (m *PodManager) dropMissedDel(ctx context.Context, containerID, ifName string) {
	if m.missedDels == "" {
		return
	}
	err := os.Remove(filepath.Join(m.missedDels, cniwire.MissedDel(containerID, ifName)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		controller.Logger(ctx, m.log).Error("Removing the record of a missed DEL failed", "error", err)
	}
}
