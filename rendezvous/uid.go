package rendezvous

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
)

// uniqueID is UniqueID for a shell, in which every call is a new process: in rank 0
// an ID that is there is used.
func (cmd *storeCommand) uniqueID(ctx context.Context, c *Client, comm string) (id ID, err error) {
	if c.Rank() == 0 {
		value, ok, err := c.Try(ctx, uniqueKey(comm, cmd.epoch))
		if err != nil {
			return id, err
		}
		if ok && len(value) == len(id) {
			return ID(value), nil
		}
	}
	return UniqueID(ctx, c, comm, cmd.epoch, func() (id ID, err error) {
		_, err = rand.Read(id[:])
		return id, err
	})
}

// putID gives all ranks the ID that the program has made. It is this rank's, whichever
// that is: a shell may know no better way to choose one.
func (cmd *storeCommand) putID(ctx context.Context, c *Client, comm string, text []byte) error {
	id, err := readID(text)
	if err != nil {
		return err
	}
	if err := CheckID(id, jobHosts()); err != nil {
		return err
	}
	u := unique{c, comm, uniqueKey(comm, cmd.epoch), []int{c.Rank()}}
	if err := u.claim(ctx, id); err != nil {
		return err
	}
	return c.Put(ctx, u.key, id[:])
}

func (cmd *storeCommand) getID(ctx context.Context, c *Client, comm string) (ID, error) {
	from := 0
	if cmd.from != nil {
		from = *cmd.from
	}
	u := unique{c, comm, uniqueKey(comm, cmd.epoch), []int{from}}
	value, err := c.GetFrom(ctx, u.key, from)
	if err != nil {
		return ID{}, err
	}
	ids, err := u.split(value)
	if err != nil {
		return ID{}, err
	}
	return ids[0], nil
}

// readID reads an ID: its bytes, or their hexadecimal digits with blanks around.
func readID(text []byte) (id ID, err error) {
	if len(text) == len(id) {
		return ID(text), nil
	}
	digits := bytes.TrimSpace(text)
	if len(digits) != hex.EncodedLen(len(id)) {
		return id, invalid("%d bytes are no ID; it has %d bytes, or %d hexadecimal digits", len(text), len(id), hex.EncodedLen(len(id)))
	}
	if _, err := hex.Decode(id[:], digits); err != nil {
		return id, invalid("the ID has 256 characters, but they are not all hexadecimal digits")
	}
	return id, nil
}

func (cmd *storeCommand) printID(id ID, err error) error {
	if cmd.raw {
		return cmd.print(id[:], err)
	}
	return cmd.print(fmt.Appendf(nil, "%x\n", id), err)
}

// jobHosts is the number of hosts that have ranks of the job, 1 if that is not known.
func jobHosts() int {
	n, _ := strconv.Atoi(os.Getenv("GORUN_NODES"))
	return max(n, 1)
}
