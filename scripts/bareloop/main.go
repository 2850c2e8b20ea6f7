// Bareloop runs one command on many hosts with nothing but x/crypto/ssh: the least
// that a launcher over ssh has to do, and the yardstick of scripts/bench-launch.
//
//	bareloop HOSTS COMMAND
//
// HOSTS is a file with one name a line. The key is ~/.ssh/id_ed25519, host keys are
// looked up in ~/.ssh/known_hosts. Sixty-four connections are made at once.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sync/errgroup"
)

const fanout = 64

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bareloop HOSTS COMMAND")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "bareloop:", err)
		os.Exit(1)
	}
}

func run(hosts, command string) error {
	list, err := os.ReadFile(hosts)
	if err != nil {
		return err
	}
	config, err := clientConfig()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(fanout)
	for _, host := range strings.Fields(string(list)) {
		group.Go(func() error {
			out, err := output(ctx, host, command, config)
			if err != nil {
				return fmt.Errorf("%s: %w", host, err)
			}
			_, err = os.Stdout.Write(out)
			return err
		})
	}
	return group.Wait()
}

func clientConfig() (*ssh.ClientConfig, error) {
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(me.HomeDir, ".ssh")
	pem, err := os.ReadFile(filepath.Join(dir, "id_ed25519"))
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, err
	}
	known, err := knownhosts.New(filepath.Join(dir, "known_hosts"))
	if err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{
		User:              me.Username,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback:   known,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}, nil
}

func output(ctx context.Context, host, command string, config *ssh.ClientConfig) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	addr := net.JoinHostPort(host, "22")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if err != nil {
		return nil, err
	}
	client := ssh.NewClient(c, channels, requests)
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	return session.Output(command)
}
