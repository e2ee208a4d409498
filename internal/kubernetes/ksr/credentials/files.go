package credentials

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	// AuthorityFile and ClientFile are the names of the files.
	AuthorityFile = "ca.pem"
	ClientFile    = "client.pem"
	// ConfigFile is a configuration of contivctl, agents and KSR with these files and etcd's
	// address.
	ConfigFile = "etcd.conf"
)

// Write writes the credentials to the directory.
func (c Credentials) Write(dir string) error {
	client := append(append([]byte(nil), c.Cert...), c.Key...)
	for _, file := range []struct {
		name string
		data []byte
	}{{AuthorityFile, c.Authority}, {ClientFile, client}} {
		if err := replace(filepath.Join(dir, file.name), file.data); err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
	}
	return nil
}

func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// WriteClient writes the credentials and a configuration to a directory, which it creates if
// necessary. It returns the commands to use them.
func (c Credentials) WriteClient(dir, endpoint string) (hint string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := c.Write(dir); err != nil {
		return "", err
	}
	authority, client, config := filepath.Join(dir, AuthorityFile), filepath.Join(dir, ClientFile), filepath.Join(dir, ConfigFile)
	data, err := yaml.Marshal(map[string]any{
		"endpoints": []string{endpoint}, "server-name": "contiv-etcd",
		"ca-file": authority, "cert-file": client, "key-file": client,
	})
	if err != nil {
		return "", err
	}
	if err := replace(config, data); err != nil {
		return "", err
	}
	return fmt.Sprintf("contivctl --etcd-config %s …\nor etcdctl --endpoints %s --cacert %s --cert %s --key %s …",
		config, endpoint, authority, client, client), nil
}
