package rendezvous

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ID is what ranks need to open a communicator, such as an ncclUniqueId.
type ID = [128]byte

// ranksPerID is how many ranks one of UniqueIDs serves: what PyTorch and XLA use.
const ranksPerID = 128

// UniqueID gives all ranks the same ID: rank 0 calls create and puts the result under
// the key "uid/<comm>/<epoch>" of epoch; the others wait for it until ctx ends. Every
// rank of the job must call it. If create fails, or gives 128 zero bytes, all ranks get
// an error with that text at once.
//
// An ID is used for one communicator only: rank 0 may not call UniqueID twice with the
// same comm and epoch unless create gives the same bytes again, and it is an error if
// create gives bytes that an earlier communicator of the job has got.
//
// The process that made a real NCCL ID runs the bootstrap's root, so it must live
// until every rank has joined the communicator: call CheckIn after that.
func UniqueID(ctx context.Context, c *Client, comm string, epoch int, create func() (ID, error)) (ID, error) {
	ids, err := unique{c.At(epoch), comm, uniqueKey(comm, epoch), []int{0}}.share(ctx, create)
	if err != nil {
		return ID{}, err
	}
	return ids[0], nil
}

// UniqueIDs gives all ranks the same IDs in the same order, one for each 128 ranks of
// the job or part of that: what ncclCommInitRankScalable takes. create is called in the
// ranks that NCCL recommends for it, the first of each share. All else is as with
// UniqueID, and up to 128 ranks the same; CheckIn keeps every creator.
//
// At the deadline the error names creators that have not given their IDs.
func UniqueIDs(ctx context.Context, c *Client, comm string, epoch int, create func() (ID, error)) ([]ID, error) {
	return unique{c.At(epoch), comm, uniqueKey(comm, epoch), creators(c.Size())}.share(ctx, create)
}

// CheckIn returns when every rank has called it with the same comm and epoch. A rank
// calls it when it no longer needs the processes that created the unique IDs (for
// NCCL: when ncclCommInitRank has returned, or ended in success if not blocking).
// At ctx's deadline the error names the ranks that have not joined.
func CheckIn(ctx context.Context, c *Client, comm string, epoch int) error {
	return c.At(epoch).Barrier(ctx, uniqueKey(comm, epoch))
}

// creators are the ranks that make the IDs of a job of size ranks, as NCCL's manual has
// it: shares differ by one rank at most, and larger ones come first.
func creators(size int) []int {
	n := max((size+ranksPerID-1)/ranksPerID, 1)
	list := make([]int, n)
	for i := range list {
		list[i] = i*(size/n) + min(i, size%n)
	}
	return list
}

func uniqueKey(comm string, epoch int) string { return fmt.Sprintf("uid/%s/%d", comm, epoch) }

// unique is the IDs of one communicator. One ID is the value of key. Several are put
// under key/0, key/1, … by those who make them; rank 0 makes one value of them all, so
// that a host asks for one key whatever the size of the job.
type unique struct {
	c        *Client
	comm     string
	key      string
	creators []int
}

func (u unique) part(i int) string {
	if len(u.creators) == 1 {
		return u.key
	}
	return fmt.Sprintf("%s/%d", u.key, i)
}

func (u unique) share(ctx context.Context, create func() (ID, error)) ([]ID, error) {
	if i := slices.Index(u.creators, u.c.Rank()); i >= 0 {
		id, err := u.make(ctx, create)
		if err != nil {
			// Tell the others; that the ID could not be made is the better error here.
			key := u.part(i)
			if i == 0 {
				key = u.key
			}
			u.c.Put(ctx, key, failedID(u.c.Rank(), err))
			return nil, fmt.Errorf("unique ID %q: %w", u.comm, err)
		}
		if err := u.c.Put(ctx, u.part(i), id[:]); err != nil {
			return nil, err
		}
	}
	if u.c.Rank() == u.creators[0] && len(u.creators) > 1 {
		if err := u.join(ctx); err != nil {
			return nil, err
		}
	}
	value, err := u.c.GetFrom(ctx, u.key, u.creators[0])
	if err != nil {
		return nil, u.missing(ctx, err)
	}
	return u.split(value)
}

// make calls create, checks what it gives, and notes that the ID is used.
func (u unique) make(ctx context.Context, create func() (ID, error)) (ID, error) {
	id, err := create()
	if err == nil && id == (ID{}) {
		err = errors.New("it has 128 zero bytes")
	}
	if err == nil {
		err = u.claim(ctx, id)
	}
	return id, err
}

// claim fails if another communicator has id. IDs that were used are keys of epoch 0.
func (u unique) claim(ctx context.Context, id ID) error {
	used := u.c.At(0)
	key := fmt.Sprintf("uid-used/%x", sha256.Sum256(id[:]))
	err := used.Put(ctx, key, []byte(u.key))
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeConflict {
		return err
	}
	owner, getErr := used.Get(ctx, key)
	if getErr != nil {
		return err
	}
	return &Error{Code: CodeConflict, Text: fmt.Sprintf("the ID is used already, by %q; each communicator needs one of its own", owner)}
}

// join makes one value of all IDs, or of the first failure.
func (u unique) join(ctx context.Context) error {
	var all []byte
	for i, rank := range u.creators {
		value, err := u.c.GetFrom(ctx, u.part(i), rank)
		if err != nil {
			return u.missing(ctx, err)
		}
		if len(value) != len(ID{}) {
			return u.c.Put(ctx, u.key, value) // it says why there is none
		}
		all = append(all, value...)
	}
	return u.c.Put(ctx, u.key, all)
}

// split reads the value of key.
func (u unique) split(value []byte) ([]ID, error) {
	if len(value) != len(u.creators)*len(ID{}) {
		return nil, fmt.Errorf("unique ID %q could not be made by %.200q", u.comm, value)
	}
	ids := make([]ID, len(u.creators))
	for i := range ids {
		copy(ids[i][:], value[i*len(ID{}):])
	}
	return ids, nil
}

// Limits of the search for who is missing.
const (
	maxMissing   = 4
	missingLimit = 2 * time.Second
)

// missing makes of err, which says that rank 0 has not put all IDs together, one that
// says who has not given one. It asks only for what this host does not know.
func (u unique) missing(ctx context.Context, err error) error {
	late, ok := errors.AsType[*Error](err)
	if !ok || late.Code != CodeDeadline || len(u.creators) == 1 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), missingLimit)
	defer cancel()
	var texts []string
	for i, rank := range u.creators {
		if len(texts) == maxMissing || ctx.Err() != nil {
			texts = append(texts, "...")
			break
		}
		moment, done := context.WithTimeout(ctx, time.Millisecond)
		_, err := u.c.GetFrom(moment, u.part(i), rank)
		done()
		if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeDeadline {
			texts = append(texts, e.Text)
		}
	}
	if texts == nil {
		return err
	}
	return &Error{Code: CodeDeadline, Text: strings.Join(texts, "; "), Waited: late.Waited}
}

// failedID is what stands in an ID's place when err kept rank from making it: a text of
// any length but that of IDs.
func failedID(rank int, err error) []byte {
	text := fmt.Appendf(nil, "rank %d: %v", rank, err)
	text = bytes.ToValidUTF8(text[:min(len(text), 1023)], nil)
	if len(text)%len(ID{}) == 0 {
		text = append(text, ' ')
	}
	return text
}
